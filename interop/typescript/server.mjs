// The tools, prompt and resources that every server of the matrix has, on the public API of the TypeScript SDK.
//
//   node server.mjs            listens on a free port of the loopback interface, says where, and ends when stdin closes
//   node server.mjs --stdio    serves one client over standard input and output
//
// Under the path /earlier, and with the flag --earlier, it speaks the earlier era alone.

import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import {
    McpServer,
    createMcpHandler,
    createRequestStateCodec,
    inputRequired,
    inputResponse,
    isLegacyRequest
} from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const LETTER = 'interop://letter';
const BOARD = 'interop://board';

// How often something was done, by the label of the call that did it.
const effects = new Map();
const act = label => effects.set(label, (effects.get(label) ?? 0) + 1);

// States are sealed as the SDK documents it: its own codec, bound to the method.
const codec = createRequestStateCodec({ key: randomBytes(32), bind: ctx => ctx.mcpReq.method });

const pages = await openPages();

// The answers of this round and, out of the sealed state, of those before.
function answersSoFar(ctx) {
    const earlier = ctx.mcpReq.requestState() ?? {};
    const now = Object.keys(ctx.mcpReq.inputResponses ?? {}).map(key => [
        key,
        inputResponse(ctx.mcpReq.inputResponses, key)
    ]);
    return { ...earlier, ...Object.fromEntries(now) };
}

// Asks, and seals what was answered so far.
async function ask(ctx, answers, inputRequests) {
    return inputRequired({ inputRequests, requestState: await codec.mint(answers, ctx) });
}

const form = (message, fields) => inputRequired.elicit({ message, requestedSchema: z.object(fields) });
function capital() {
    const content = { type: 'text', text: 'What is the capital of France?' };
    return inputRequired.createMessage({ messages: [{ role: 'user', content }], maxTokens: 100 });
}

const text = value => ({ content: [{ type: 'text', text: value }] });
const said = answer => [answer.result.content].flat().map(block => block.text).join('');
const pause = () => new Promise(resolve => setTimeout(resolve, 50));

function build(announce) {
    const server = new McpServer(
        { name: 'interop-typescript', version: '1.0.0' },
        {
            capabilities: { resources: { subscribe: true } },
            requestState: { verify: codec.verify }
        }
    );
    const labelled = z.object({ label: z.string() });
    const tool = (name, inputSchema, run) => server.registerTool(name, { inputSchema }, run);

    tool('add', z.object({ a: z.number(), b: z.number() }), ({ a, b }) => text(String(a + b)));

    tool('order', z.object({ label: z.string(), item: z.string() }), async ({ label, item }, ctx) => {
        const answers = answersSoFar(ctx);
        if (answers.quantity?.kind !== 'elicit') {
            const quantity = form(`Order ${item}?`, { quantity: z.number().int(), gift: z.boolean() });
            return ask(ctx, answers, { quantity });
        }
        if (answers.quantity.action !== 'accept') {
            return text(answers.quantity.action === 'decline' ? 'Declined.' : 'Cancelled.');
        }
        act(label);
        const { quantity, gift } = answers.quantity.content;
        return text(`Ordered ${quantity} of ${item}${gift ? ' as a gift' : ''}.`);
    });

    tool('travel', labelled, async ({ label }, ctx) => {
        const answers = answersSoFar(ctx);
        const from = answers.from?.content?.from;
        if (from === undefined) {
            return ask(ctx, answers, { from: form('Where from?', { from: z.string() }) });
        }
        const to = answers.to?.content?.to;
        if (to === undefined) {
            return ask(ctx, answers, { to: form(`From ${from} to where?`, { to: z.string() }) });
        }
        act(label);
        return text(`From ${from} to ${to}.`);
    });

    tool('survey', labelled, async ({ label }, ctx) => {
        const answers = answersSoFar(ctx);
        const name = answers.name?.content?.name;
        const colour = answers.colour?.content?.colour;
        if (name === undefined || colour === undefined) {
            return ask(ctx, answers, {
                name: form('Which name?', { name: z.string() }),
                colour: form('Which colour?', { colour: z.string() })
            });
        }
        act(label);
        return text(`${name} likes ${colour}.`);
    });

    tool('gather', z.object({}), async (_, ctx) => {
        const answers = answersSoFar(ctx);
        if (answers.name?.kind !== 'elicit' || answers.capital?.kind !== 'sampling' || answers.folders?.kind !== 'roots') {
            return ask(ctx, answers, {
                name: form('Which name?', { name: z.string() }),
                capital: capital(),
                folders: inputRequired.listRoots()
            });
        }
        const { name } = answers.name.content;
        return text(`${name}, ${said(answers.capital)} and ${answers.folders.roots.length} folders.`);
    });

    tool('visit', labelled, async ({ label }, ctx) => {
        const { handle = randomUUID(), ...answers } = answersSoFar(ctx);
        if (answers.page?.action !== 'accept' || !pages.visited.has(handle)) {
            const page = inputRequired.elicitUrl({ message: 'Please open the page.', url: `${pages.base}/${handle}` });
            return ask(ctx, { handle }, { page });
        }
        act(label);
        return text('The page was visited.');
    });

    tool('ask_model', z.object({}), async (_, ctx) => {
        const answers = answersSoFar(ctx);
        if (answers.capital?.kind !== 'sampling') {
            return ask(ctx, answers, { capital: capital() });
        }
        return text(`${answers.capital.result.model} said: ${said(answers.capital)}`);
    });

    tool('folders', z.object({}), async (_, ctx) => {
        const answers = answersSoFar(ctx);
        if (answers.folders?.kind !== 'roots') {
            return ask(ctx, answers, { folders: inputRequired.listRoots() });
        }
        return text(`${answers.folders.roots.map(root => root.uri).join(' and ')}.`);
    });

    tool('count', z.object({}), async (_, ctx) => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        for (const [index, message] of ['one', 'two', 'three'].entries()) {
            if (progressToken !== undefined) {
                const params = { progressToken, progress: index + 1, total: 3, message };
                await ctx.mcpReq.notify({ method: 'notifications/progress', params });
            }
            await pause();
        }
        return text('Counted to three.');
    });

    tool('wait', labelled, async ({ label }, ctx) => {
        const { signal, _meta, notify } = ctx.mcpReq;
        const cancelled = new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }));
        const params = { progressToken: _meta?.progressToken, progress: 1, message: 'begun' };
        await notify({ method: 'notifications/progress', params });
        await cancelled;
        act(label);
        return text('Nobody reads this.');
    });

    tool('write', labelled, async ({ label }) => {
        act(label);
        await announce(server, BOARD);
        return text('Written.');
    });

    tool('endless', z.object({}), async (_, ctx) => {
        const number = (ctx.mcpReq.requestState()?.number ?? 0) + 1;
        return ask(ctx, { number }, { [`question-${number}`]: form(`Question ${number}?`, { word: z.string() }) });
    });

    tool('effects', labelled, ({ label }) => text(String(effects.get(label) ?? 0)));

    server.registerPrompt('greeting', { argsSchema: z.object({ tone: z.string() }) }, async ({ tone }, ctx) => {
        const answers = answersSoFar(ctx);
        if (answers.name?.kind !== 'elicit') {
            return ask(ctx, answers, { name: form('Greet whom?', { name: z.string() }) });
        }
        const message = `A ${tone} welcome to ${answers.name.content.name}.`;
        return { messages: [{ role: 'user', content: { type: 'text', text: message } }] };
    });

    server.registerResource('letter', LETTER, {}, async (uri, ctx) => {
        const answers = answersSoFar(ctx);
        if (answers.name?.kind !== 'elicit') {
            return ask(ctx, answers, { name: form('To whom?', { name: z.string() }) });
        }
        return { contents: [{ uri: uri.href, text: `Dear ${answers.name.content.name}.` }] };
    });

    server.registerResource('board', BOARD, {}, uri => ({ contents: [{ uri: uri.href, text: 'A board.' }] }));
    return server;
}

// A session or a pipe of the earlier era: whoever subscribed is told.
function takesSubscriptions(server) {
    const wanted = new Set();
    server.server.setRequestHandler('resources/subscribe', ({ params }) => {
        wanted.add(params.uri);
        return {};
    });
    server.server.setRequestHandler('resources/unsubscribe', ({ params }) => {
        wanted.delete(params.uri);
        return {};
    });
    return wanted;
}

function buildEarlier() {
    const tell = async (one, uri) => {
        if (wanted.has(uri)) await one.server.sendResourceUpdated({ uri });
    };
    const server = build(tell);
    const wanted = takesSubscriptions(server);
    return server;
}

// The page that a URL question leads to: whoever opens it has visited it.
async function openPages() {
    const visited = new Set();
    const server = createServer((request, response) => {
        visited.add(request.url.split('/').pop());
        response.end('Thank you.');
    });
    await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
    // It keeps nothing alive.
    server.unref();
    return { visited, base: `http://127.0.0.1:${server.address().port}/page` };
}

async function overStdio() {
    if (process.argv.includes('--earlier')) {
        await buildEarlier().connect(new StdioServerTransport());
        return;
    }
    serveStdio(({ era }) =>
        era === 'legacy' ? buildEarlier() : build((server, uri) => server.server.sendResourceUpdated({ uri }))
    );
}

async function overHttp() {
    const handler = createMcpHandler(() => build(async (_, uri) => handler.notify.resourceUpdated(uri)), {
        legacy: 'reject'
    });
    const modern = toNodeHandler(handler);
    const sessions = new Map();

    // Sessions, as the SDK's documentation routes them to a transport of their own: its stateless default cannot ask.
    async function earlier(request, response, body) {
        const id = request.headers['mcp-session-id'];
        if (id !== undefined && !sessions.has(id)) {
            response.writeHead(404).end();
            return;
        }
        let transport = sessions.get(id);
        if (transport === undefined) {
            transport = new NodeStreamableHTTPServerTransport({
                sessionIdGenerator: () => randomUUID(),
                onsessioninitialized: session => void sessions.set(session, transport),
                onsessionclosed: session => void sessions.delete(session)
            });
            await buildEarlier().connect(transport);
        }
        await transport.handleRequest(request, response, body);
    }

    const server = createServer(async (request, response) => {
        let body;
        if (request.method === 'POST') {
            const chunks = [];
            for await (const chunk of request) chunks.push(chunk);
            try {
                body = JSON.parse(Buffer.concat(chunks).toString());
            } catch {
                response.writeHead(400, { 'Content-Type': 'application/json' });
                response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32700, message: 'Parse error' } }));
                return;
            }
        }
        const isEarlier = request.url === '/earlier' || (await isLegacyRequest(await toWebRequest(request, body), body));
        await (isEarlier ? earlier : modern)(request, response, body);
    });
    server.listen(0, '127.0.0.1', () => {
        console.log(`listening on http://127.0.0.1:${server.address().port}/mcp`);
    });
    process.stdin.resume();
    process.stdin.on('end', () => process.exit(0));
}

if (process.argv.includes('--stdio')) {
    await overStdio();
} else {
    await overHttp();
}
