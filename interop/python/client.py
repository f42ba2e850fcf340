"""Plays the cases of the matrix against a server, with the client of the Python SDK, and writes one JSON object a line: the
case, and what was observed in it.

    python client.py (--url URL | --command JSON) --era REVISION --case CASE..
"""

import argparse
import json
import sys
import traceback
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp import Client, InputRequiredRoundsExceededError, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    ResourceUpdatedNotification,
    Root,
    TextContent,
)

TOKEN = "interop-token"
MODERN = "2026-07-28"

# Our server ends a call after 16 rounds; this client goes along with more, to see that.
ROUNDS = 40

FIELDS = {"quantity": 3, "gift": True, "from": "Oslo", "to": "Rome", "name": "Ada", "colour": "green"}


def content(fields: list[str]) -> dict[str, Any]:
    return {field: FIELDS.get(field, "more") for field in fields}


class Person:
    """The person in front of the client: what is asked of them, and what they answer."""

    def __init__(self) -> None:
        self.mood = "accept"
        self.questions: list[dict[str, Any]] = []

    def begin(self, mood: str) -> None:
        self.mood, self.questions = mood, []

    def asked(self) -> list[dict[str, Any]]:
        """In an order that does not depend on which of two came first."""
        return sorted(self.questions, key=json.dumps)

    async def elicited(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        if isinstance(params, ElicitRequestURLParams):
            async with httpx2.AsyncClient() as browser:
                page = await browser.get(params.url)
            self.questions.append({"kind": "url", "message": params.message, "page": page.status_code})
            return ElicitResult(action="accept")
        fields = sorted(params.requested_schema["properties"])
        self.questions.append({"kind": "form", "message": params.message, "fields": fields})
        if self.mood == "accept":
            return ElicitResult(action="accept", content=content(fields))
        return ElicitResult(action=self.mood)

    async def sampled(self, _: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        messages = [message.content.text for message in params.messages]
        self.questions.append({"kind": "sampling", "messages": messages, "max_tokens": params.max_tokens})
        answer = TextContent(type="text", text="Paris")
        return CreateMessageResult(model="interop-model", role="assistant", content=answer)

    async def listed(self, _: Any) -> ListRootsResult:
        self.questions.append({"kind": "roots"})
        return ListRootsResult(roots=[Root(uri="file:///work/one"), Root(uri="file:///work/two")])


class Scene:
    """One connection, and what is done over it."""

    def __init__(
        self, plan: argparse.Namespace, client: Client, person: Person, updates: MemoryObjectReceiveStream[str]
    ) -> None:
        self.plan = plan
        self.client = client
        self.person = person
        self.updates = updates

    async def text(self, tool: str, arguments: dict[str, Any], **options: Any) -> str:
        return text_of(await self.client.call_tool(tool, arguments, **options))

    async def effects(self, label: str) -> str:
        return await self.text("effects", {"label": label})

    async def plain(self, _: str) -> dict[str, Any]:
        return {"text": await self.text("add", {"a": 2, "b": 40})}

    async def asking(self, label: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        text = await self.text(tool, arguments)
        return {"text": text, "asked": self.person.asked(), "effects": await self.effects(label)}

    async def order(self, label: str) -> dict[str, Any]:
        return await self.asking(label, "order", {"label": label, "item": "tea"})

    async def travel(self, label: str) -> dict[str, Any]:
        return await self.asking(label, "travel", {"label": label})

    async def survey(self, label: str) -> dict[str, Any]:
        return await self.asking(label, "survey", {"label": label})

    async def gather(self, label: str) -> dict[str, Any]:
        return await self.asking(label, "gather", {})

    async def visit(self, label: str) -> dict[str, Any]:
        return await self.asking(label, "visit", {"label": label})

    async def ask_model(self, label: str) -> dict[str, Any]:
        return await self.asking(label, "ask_model", {})

    async def folders(self, label: str) -> dict[str, Any]:
        return await self.asking(label, "folders", {})

    async def prompt(self, _: str) -> dict[str, Any]:
        result = await self.client.get_prompt("greeting", {"tone": "warm"})
        text = "".join(message.content.text for message in result.messages)
        return {"text": text, "asked": self.person.asked()}

    async def resource(self, _: str) -> dict[str, Any]:
        result = await self.client.read_resource("interop://letter")
        return {"text": "".join(one.text for one in result.contents), "asked": self.person.asked()}

    async def progress(self, _: str) -> dict[str, Any]:
        reports: list[list[Any]] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            reports.append([progress, total, message])

        return {"text": await self.text("count", {}, progress_callback=heard), "reports": reports}

    async def cancelled(self, label: str) -> dict[str, Any]:
        with anyio.CancelScope() as scope:

            async def begun(*_: Any) -> None:
                scope.cancel()

            ended = await self.text("wait", {"label": label}, progress_callback=begun)
        if scope.cancelled_caught:
            ended = "given up"
        # Nothing tells when the body has noticed.
        noticed = await self.effects(label)
        for _ in range(200):
            if noticed != "0":
                break
            await anyio.sleep(0.025)
            noticed = await self.effects(label)
        return {"ended": ended, "effects": noticed}

    async def discovery(self, _: str) -> dict[str, Any]:
        async with AsyncExitStack() as stack:
            client = await connected(self.plan, stack, mode="auto")
            text = text_of(await client.call_tool("add", {"a": 2, "b": 40}))
            return {"era": client.protocol_version, "text": text}

    async def subscription(self, label: str) -> dict[str, Any]:
        uri = "interop://board"
        if self.client.protocol_version == MODERN:
            async with self.client.listen(resource_subscriptions=[uri]) as subscription:
                acknowledged = subscription.honored.resource_subscriptions
                text = await self.text("write", {"label": label})
                async for event in subscription:
                    changed = event.uri
                    break
        else:
            await self.client.subscribe_resource(uri)
            acknowledged = [uri]
            text = await self.text("write", {"label": label})
            changed = await self.updates.receive()
            await self.client.unsubscribe_resource(uri)
        effects = await self.effects(label)
        return {"text": text, "acknowledged": acknowledged, "changed": changed, "effects": effects}

    async def begun(self, label: str) -> tuple[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """A call of `order` up to its question, by hand: its state, and what retries it with an answer and a state."""
        arguments = {"label": label, "item": "tea"}
        round_ = await self.client.session.call_tool("order", arguments, allow_input_required=True)
        if not isinstance(round_, InputRequiredResult):
            raise RuntimeError("the call ended without a question")
        accepted = ElicitResult(action="accept", content=content(["quantity", "gift"]))
        responses = {key: accepted for key in round_.input_requests or {}}

        async def retry(state: str, item: str = "tea") -> dict[str, Any]:
            arguments = {"label": label, "item": item}
            try:
                result = await self.client.session.call_tool(
                    "order", arguments, input_responses=responses, request_state=state, allow_input_required=True
                )
            except MCPError as error:
                return {"error": error.code}
            return {"asked": "again"} if isinstance(result, InputRequiredResult) else {"text": text_of(result)}

        return round_.request_state or "", retry

    async def tampered(self, label: str) -> dict[str, Any]:
        state, retry = await self.begun(label)
        middle = len(state) // 2
        changed = state[:middle] + ("B" if state[middle] == "A" else "A") + state[middle + 1 :]
        return {
            "tampered": await retry(changed),
            "effects_after_tampered": await self.effects(label),
            "genuine": await retry(state),
            "effects": await self.effects(label),
        }

    async def other_arguments(self, label: str) -> dict[str, Any]:
        state, retry = await self.begun(label)
        return {"other": await retry(state, "coffee"), "effects": await self.effects(label)}

    async def replayed(self, label: str) -> dict[str, Any]:
        state, retry = await self.begun(label)
        return {"first": await retry(state), "second": await retry(state), "effects": await self.effects(label)}

    async def undeclared(self, label: str) -> dict[str, Any]:
        async def request(bare: Client) -> dict[str, Any]:
            result = await bare.call_tool("order", {"label": label, "item": "tea"})
            return {"is_error": True} if result.is_error else {"text": text_of(result)}

        return await self.bare(label, request)

    async def undeclared_prompt(self, label: str) -> dict[str, Any]:
        async def request(bare: Client) -> dict[str, Any]:
            result = await bare.get_prompt("greeting", {"tone": "warm"})
            return {"text": "".join(message.content.text for message in result.messages)}

        return await self.bare(label, request)

    async def bare(self, label: str, request: Callable[[Client], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """What becomes of a request by a client that declares nothing."""
        async with AsyncExitStack() as stack:
            client = await connected(self.plan, stack)
            try:
                ended = await request(client)
            except MCPError as error:
                ended = {"error": error.code}
        return {"ended": ended, "effects": await self.effects(label)}

    async def endless(self, _: str) -> dict[str, Any]:
        try:
            result = await self.client.call_tool("endless", {})
            ended = "by the server" if result.is_error else "by a result"
        except InputRequiredRoundsExceededError:
            ended = "by the client"
        return {"ended": ended, "questions": len(self.person.questions)}


CASES: dict[str, Callable[[Scene, str], Awaitable[dict[str, Any]]]] = {
    "plain": Scene.plain,
    "form-accepted": Scene.order,
    "form-declined": Scene.order,
    "form-cancelled": Scene.order,
    "two-rounds": Scene.travel,
    "several-questions": Scene.survey,
    "several-kinds": Scene.gather,
    "url": Scene.visit,
    "sampling": Scene.ask_model,
    "roots": Scene.folders,
    "prompt": Scene.prompt,
    "resource": Scene.resource,
    "progress": Scene.progress,
    "cancelled-call": Scene.cancelled,
    "discovery": Scene.discovery,
    "subscription": Scene.subscription,
    "tampered-state": Scene.tampered,
    "other-arguments": Scene.other_arguments,
    "replayed-state": Scene.replayed,
    "undeclared": Scene.undeclared,
    "undeclared-prompt": Scene.undeclared_prompt,
    "too-many-rounds": Scene.endless,
}

MOODS = {"form-declined": "decline", "form-cancelled": "cancel"}


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def connected(plan: argparse.Namespace, stack: AsyncExitStack, **options: Any) -> Client:
    if plan.url is not None:
        # As long as the SDK's own client would wait on a stream.
        timeout = httpx2.Timeout(30, read=300)
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=timeout)
        server: Any = streamable_http_client(plan.url, http_client=await stack.enter_async_context(http))
    else:
        command, *args = json.loads(plan.command)
        server = StdioServerParameters(command=command, args=args)
    options = {"mode": MODERN if plan.era == MODERN else "legacy", "input_required_max_rounds": ROUNDS} | options
    client = Client(server, **options)
    await stack.enter_async_context(client)
    if client.protocol_version != plan.era:
        raise RuntimeError(f"connected in {client.protocol_version}")
    return client


async def attended(plan: argparse.Namespace, person: Person, stack: AsyncExitStack) -> Scene:
    """A connection with this person in front of it."""
    updates, updated = anyio.create_memory_object_stream[str](16)

    async def heard(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await updates.send(str(message.params.uri))

    client = await connected(
        plan,
        stack,
        elicitation_callback=person.elicited,
        sampling_callback=person.sampled,
        list_roots_callback=person.listed,
        message_handler=heard,
    )
    return Scene(plan, client, person, updated)


async def play(plan: argparse.Namespace) -> None:
    person = Person()
    remaining = list(plan.case)
    while remaining:
        # After a case that failed there is another connection, so that the next is not blamed.
        async with AsyncExitStack() as stack:
            scene = None
            while remaining:
                name = remaining.pop(0)
                person.begin(MOODS.get(name, "accept"))
                try:
                    scene = scene or await attended(plan, person, stack)
                    # One server counts the effects of both eras.
                    observed = await CASES[name](scene, f"{name} {plan.era}")
                except Exception as error:
                    traceback.print_exc(file=sys.stderr)
                    print(json.dumps({"case": name, "failed": repr(error)}), flush=True)
                    break
                print(json.dumps({"case": name, "observed": observed}), flush=True)


if __name__ == "__main__":
    # The earlier era is played on purpose.
    warnings.simplefilter("ignore")
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url")
    arguments.add_argument("--command")
    arguments.add_argument("--era", required=True)
    arguments.add_argument("--case", action="append", default=[])
    anyio.run(play, arguments.parse_args())
