// Plays the cases of the matrix against a server, with the client of the TypeScript SDK, and writes one JSON object a line: the
// case, and what was observed in it.
//
//   node client.mjs (--url URL | --command JSON) --era REVISION --case CASE..

import { parseArgs } from 'node:util';

import { Client, ProtocolError, SdkError, SdkErrorCode, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const TOKEN = 'interop-token';
const MODERN = '2026-07-28';

// Our server ends a call after 16 rounds; this client goes along with more, to see that.
const ROUNDS = 40;

const { values: plan } = parseArgs({
    options: {
        url: { type: 'string' },
        command: { type: 'string' },
        era: { type: 'string' },
        case: { type: 'string', multiple: true, default: [] }
    }
});

// The person in front of the client: what is asked of them, and what they answer.
const person = { mood: 'accept', asked: [] };

const FIELDS = { quantity: 3, gift: true, from: 'Oslo', to: 'Rome', name: 'Ada', colour: 'green' };
const content = fields => Object.fromEntries(fields.map(field => [field, FIELDS[field] ?? 'more']));

async function elicited({ params }) {
    if (params.mode === 'url') {
        const page = await fetch(params.url);
        person.asked.push({ kind: 'url', message: params.message, page: page.status });
        return { action: 'accept' };
    }
    const fields = Object.keys(params.requestedSchema.properties).sort();
    person.asked.push({ kind: 'form', message: params.message, fields });
    return person.mood === 'accept' ? { action: 'accept', content: content(fields) } : { action: person.mood };
}

function sampled({ params }) {
    const messages = params.messages.map(message => [message.content].flat().map(block => block.text).join(''));
    person.asked.push({ kind: 'sampling', messages, max_tokens: params.maxTokens });
    return { model: 'interop-model', role: 'assistant', content: { type: 'text', text: 'Paris' } };
}

function listed() {
    person.asked.push({ kind: 'roots' });
    return { roots: [{ uri: 'file:///work/one' }, { uri: 'file:///work/two' }] };
}

const EVERYTHING = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

async function connect(capabilities = EVERYTHING, mode = plan.era === MODERN ? { pin: MODERN } : 'legacy') {
    const client = new Client(
        { name: 'interop-typescript', version: '1.0.0' },
        {
            capabilities,
            versionNegotiation: { mode },
            inputRequired: { maxRounds: ROUNDS }
        }
    );
    if (capabilities === EVERYTHING) {
        client.setRequestHandler('elicitation/create', elicited);
        client.setRequestHandler('sampling/createMessage', sampled);
        client.setRequestHandler('roots/list', listed);
    }
    await client.connect(transport());
    if (client.getNegotiatedProtocolVersion() !== plan.era) {
        throw new Error(`connected in ${client.getNegotiatedProtocolVersion()}`);
    }
    return client;
}

function transport() {
    if (plan.url !== undefined) {
        const requestInit = { headers: { Authorization: `Bearer ${TOKEN}` } };
        return new StreamableHTTPClientTransport(new URL(plan.url), { requestInit });
    }
    const [command, ...args] = JSON.parse(plan.command);
    return new StdioClientTransport({ command, args });
}

const textOf = result => result.content.map(block => block.text).join('');

async function called(client, name, args, options) {
    return client.callTool({ name, arguments: args }, options);
}

async function effects(client, label) {
    return textOf(await called(client, 'effects', { label }));
}

async function asking(client, label, name, args) {
    const result = await called(client, name, args);
    return { text: textOf(result), asked: asked(), effects: await effects(client, label) };
}

// In an order that does not depend on which of two came first.
function asked() {
    return person.asked.toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
}

// A call of `order` up to its question, by hand; what comes back retries it with an answer and this state.
async function begun(client, label) {
    const args = { label, item: 'tea' };
    const round = await called(client, 'order', args, { allowInputRequired: true });
    if (round.resultType !== 'input_required') throw new Error('the call ended without a question');
    const accepted = { action: 'accept', content: content(['quantity', 'gift']) };
    const inputResponses = Object.fromEntries(Object.keys(round.inputRequests).map(key => [key, accepted]));
    const retry = async (requestState, other = args) => {
        try {
            const params = { name: 'order', arguments: other, inputResponses, requestState };
            const result = await client.callTool(params, { allowInputRequired: true });
            return result.resultType === 'input_required' ? { asked: 'again' } : { text: textOf(result) };
        } catch (error) {
            if (!(error instanceof ProtocolError)) throw error;
            return { error: error.code };
        }
    };
    return { state: round.requestState, retry };
}

function changed(state) {
    const middle = Math.floor(state.length / 2);
    return state.slice(0, middle) + (state[middle] === 'A' ? 'B' : 'A') + state.slice(middle + 1);
}

async function subscribed(client, uri) {
    const heard = new Promise(resolve => {
        client.setNotificationHandler('notifications/resources/updated', ({ params }) => resolve(params.uri));
    });
    if (plan.era === MODERN) {
        const subscription = await client.listen({ resourceSubscriptions: [uri] });
        const acknowledged = subscription.honoredFilter.resourceSubscriptions;
        return { heard, acknowledged, close: () => subscription.close() };
    }
    await client.subscribeResource({ uri });
    return { heard, acknowledged: [uri], close: () => client.unsubscribeResource({ uri }) };
}

// What becomes of a request by a client that declares nothing.
async function undeclared(client, label, request) {
    const bare = await connect({});
    let ended;
    try {
        ended = await request(bare);
    } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        ended = { error: error.code };
    } finally {
        await bare.close();
    }
    return { ended, effects: await effects(client, label) };
}

const order = (client, label) => asking(client, label, 'order', { label, item: 'tea' });

const CASES = {
    plain: async client => ({ text: textOf(await called(client, 'add', { a: 2, b: 40 })) }),
    'form-accepted': order,
    'form-declined': order,
    'form-cancelled': order,
    'two-rounds': (client, label) => asking(client, label, 'travel', { label }),
    'several-questions': (client, label) => asking(client, label, 'survey', { label }),
    'several-kinds': (client, label) => asking(client, label, 'gather', {}),
    url: (client, label) => asking(client, label, 'visit', { label }),
    sampling: (client, label) => asking(client, label, 'ask_model', {}),
    roots: (client, label) => asking(client, label, 'folders', {}),
    prompt: async client => {
        const result = await client.getPrompt({ name: 'greeting', arguments: { tone: 'warm' } });
        return { text: result.messages.map(message => message.content.text).join(''), asked: asked() };
    },
    resource: async client => {
        const result = await client.readResource({ uri: 'interop://letter' });
        return { text: result.contents.map(one => one.text).join(''), asked: asked() };
    },
    progress: async client => {
        const reports = [];
        const onprogress = ({ progress, total, message }) => reports.push([progress, total, message]);
        const result = await called(client, 'count', {}, { onprogress });
        return { text: textOf(result), reports };
    },
    'cancelled-call': async (client, label) => {
        const given = new AbortController();
        let ended;
        try {
            const options = { signal: given.signal, onprogress: () => given.abort('given up') };
            ended = textOf(await called(client, 'wait', { label }, options));
        } catch (error) {
            if (!given.signal.aborted) throw error;
            ended = 'given up';
        }
        // Nothing tells when the body has noticed.
        let noticed = await effects(client, label);
        for (let look = 0; look < 200 && noticed === '0'; look += 1) {
            await new Promise(resolve => setTimeout(resolve, 25));
            noticed = await effects(client, label);
        }
        return { ended, effects: noticed };
    },
    discovery: async () => {
        const client = await connect(EVERYTHING, 'auto');
        const result = await called(client, 'add', { a: 2, b: 40 });
        const era = client.getNegotiatedProtocolVersion();
        await client.close();
        return { era, text: textOf(result) };
    },
    subscription: async (client, label) => {
        const { heard, acknowledged, close } = await subscribed(client, 'interop://board');
        const result = await called(client, 'write', { label });
        const changed = await heard;
        await close();
        return { text: textOf(result), acknowledged, changed, effects: await effects(client, label) };
    },
    'tampered-state': async (client, label) => {
        const { state, retry } = await begun(client, label);
        const tampered = await retry(changed(state));
        const effectsAfter = await effects(client, label);
        const genuine = await retry(state);
        return { tampered, effects_after_tampered: effectsAfter, genuine, effects: await effects(client, label) };
    },
    'other-arguments': async (client, label) => {
        const { state, retry } = await begun(client, label);
        const other = await retry(state, { label, item: 'coffee' });
        return { other, effects: await effects(client, label) };
    },
    'replayed-state': async (client, label) => {
        const { state, retry } = await begun(client, label);
        const first = await retry(state);
        const second = await retry(state);
        return { first, second, effects: await effects(client, label) };
    },
    undeclared: (client, label) =>
        undeclared(client, label, async bare => {
            const result = await called(bare, 'order', { label, item: 'tea' });
            return result.isError ? { is_error: true } : { text: textOf(result) };
        }),
    'undeclared-prompt': (client, label) =>
        undeclared(client, label, async bare => {
            const result = await bare.getPrompt({ name: 'greeting', arguments: { tone: 'warm' } });
            return { text: result.messages.map(message => message.content.text).join('') };
        }),
    'too-many-rounds': async client => {
        let ended;
        try {
            const result = await called(client, 'endless', {});
            ended = result.isError ? 'by the server' : 'by a result';
        } catch (error) {
            if (!(error instanceof SdkError) || error.code !== SdkErrorCode.InputRequiredRoundsExceeded) throw error;
            ended = 'by the client';
        }
        return { ended, questions: person.asked.length };
    }
};

const MOODS = { 'form-declined': 'decline', 'form-cancelled': 'cancel' };

let client;
for (const name of plan.case) {
    Object.assign(person, { mood: MOODS[name] ?? 'accept', asked: [] });
    let line;
    try {
        // After a case that failed there is another connection, so that the next is not blamed.
        client ??= await connect();
        // One server counts the effects of both eras.
        line = { case: name, observed: await CASES[name](client, `${name} ${plan.era}`) };
    } catch (error) {
        console.error(error);
        line = { case: name, failed: String(error) };
        await client?.close();
        client = undefined;
    }
    console.log(JSON.stringify(line));
}
await client?.close();
