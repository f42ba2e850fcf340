"""The tools, prompt and resources that every server of the matrix has, on the public API of the Python SDK.

    python server.py            listens on a free port of the loopback interface, says where, and ends when stdin closes
    python server.py --stdio    serves one client over standard input and output

Tools ask through resolvers, which serve both eras. What resolvers do not have (pages, prompts, resources) is asked by hand:
with an `InputRequiredResult` in the modern era, and with the context's `elicit` in the earlier one.
"""

import os
import socket
import sys
import threading
import uuid
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import (
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

MODERN = "2026-07-28"
BOARD = "interop://board"

server = MCPServer("interop-python", version="1.0.0", log_level="WARNING")

# How often something was done, by the label of the call that did it.
done: Counter[str] = Counter()


class Pages:
    """The page that a URL question leads to: whoever opens it has visited it."""

    def __init__(self) -> None:
        self.visited: set[str] = set()
        visited = self.visited

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                visited.add(self.path.rsplit("/", 1)[-1])
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"Thank you.")

            def log_message(self, *_: object) -> None:
                pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{http.server_port}/page"


pages = Pages()


class Quantity(BaseModel):
    quantity: int
    gift: bool


class From(BaseModel):
    # `from` is a word of the language's own.
    model_config = {"extra": "allow"}
    __annotations__ = {"from": str}


class To(BaseModel):
    to: str


class Name(BaseModel):
    name: str


class Colour(BaseModel):
    colour: str


class Word(BaseModel):
    word: str


@server.tool()
def add(a: int, b: int) -> str:
    return str(a + b)


async def how_many(item: str) -> Elicit[Quantity]:
    return Elicit(f"Order {item}?", Quantity)


@server.tool()
async def order(label: str, item: str, answer: Annotated[ElicitationResult[Quantity], Resolve(how_many)]) -> str:
    if not isinstance(answer, AcceptedElicitation):
        return "Declined." if answer.action == "decline" else "Cancelled."
    done[label] += 1
    return f"Ordered {answer.data.quantity} of {item}{' as a gift' if answer.data.gift else ''}."


async def whence() -> Elicit[From]:
    return Elicit("Where from?", From)


async def whither(start: Annotated[From, Resolve(whence)]) -> Elicit[To]:
    return Elicit(f"From {getattr(start, 'from')} to where?", To)


@server.tool()
async def travel(
    label: str, start: Annotated[From, Resolve(whence)], end: Annotated[To, Resolve(whither)]
) -> str:
    done[label] += 1
    return f"From {getattr(start, 'from')} to {end.to}."


async def which_name() -> Elicit[Name]:
    return Elicit("Which name?", Name)


async def which_colour() -> Elicit[Colour]:
    return Elicit("Which colour?", Colour)


@server.tool()
async def survey(
    label: str, name: Annotated[Name, Resolve(which_name)], colour: Annotated[Colour, Resolve(which_colour)]
) -> str:
    done[label] += 1
    return f"{name.name} likes {colour.colour}."


@server.tool(structured_output=False)
async def visit(label: str, ctx: Context) -> str | InputRequiredResult:
    message = "Please open the page."
    if ctx.protocol_version == MODERN:
        handle = ctx.request_state or uuid.uuid4().hex
        answer = (ctx.input_responses or {}).get("page")
        accepted = isinstance(answer, ElicitResult) and answer.action == "accept"
        if not (accepted and handle in pages.visited):
            params = ElicitRequestURLParams(message=message, url=f"{pages.base}/{handle}")
            return InputRequiredResult(input_requests={"page": ElicitRequest(params=params)}, request_state=handle)
    else:
        handle = uuid.uuid4().hex
        answer = await ctx.elicit_url(message, f"{pages.base}/{handle}", handle)
        if answer.action != "accept" or handle not in pages.visited:
            return "The page was not visited."
    done[label] += 1
    return "The page was visited."


async def which_capital() -> Sample:
    content = TextContent(type="text", text="What is the capital of France?")
    return Sample([SamplingMessage(role="user", content=content)], max_tokens=100)


@server.tool()
async def ask_model(answer: Annotated[CreateMessageResult, Resolve(which_capital)]) -> str:
    return f"{answer.model} said: {answer.content.text}"


async def which_folders() -> ListRoots:
    return ListRoots()


@server.tool()
async def gather(
    name: Annotated[Name, Resolve(which_name)],
    capital: Annotated[CreateMessageResult, Resolve(which_capital)],
    found: Annotated[ListRootsResult, Resolve(which_folders)],
) -> str:
    return f"{name.name}, {capital.content.text} and {len(found.roots)} folders."


@server.tool()
async def folders(answer: Annotated[ListRootsResult, Resolve(which_folders)]) -> str:
    return f"{' and '.join(str(root.uri) for root in answer.roots)}."


@server.tool()
async def count(ctx: Context) -> str:
    for step, word in enumerate(["one", "two", "three"], start=1):
        await ctx.report_progress(step, 3, word)
        await anyio.sleep(0.05)
    return "Counted to three."


@server.tool()
async def wait(label: str, ctx: Context) -> str:
    await ctx.report_progress(1, None, "begun")
    try:
        await anyio.sleep_forever()
    finally:
        done[label] += 1
    return "Nobody reads this."


@server.tool()
async def write(label: str, ctx: Context) -> str:
    done[label] += 1
    await ctx.notify_resource_updated(BOARD)
    return "Written."


@server.tool(structured_output=False)
async def endless(ctx: Context) -> str | InputRequiredResult:
    number = int(ctx.request_state or 0) + 1
    if ctx.protocol_version == MODERN:
        return asked(f"question-{number}", f"Question {number}?", Word, str(number))
    while (await ctx.elicit(f"Question {number}?", Word)).action == "accept":
        number += 1
    return f"Left at question {number}."


@server.tool()
def effects(label: str) -> str:
    return str(done[label])


def asked(key: str, message: str, form: type[BaseModel], state: str | None = None) -> InputRequiredResult:
    """A question, by hand."""
    params = ElicitRequestFormParams(message=message, requested_schema=form.model_json_schema())
    return InputRequiredResult(input_requests={key: ElicitRequest(params=params)}, request_state=state)


async def name_for(ctx: Context, message: str) -> str | InputRequiredResult:
    """The name that was given, or the question for it."""
    if ctx.protocol_version != MODERN:
        answer = await ctx.elicit(message, Name)
        return answer.data.name if isinstance(answer, AcceptedElicitation) else "nobody"
    answer = (ctx.input_responses or {}).get("name")
    if not (isinstance(answer, ElicitResult) and answer.action == "accept" and ctx.request_state == message):
        return asked("name", message, Name, message)
    return Name.model_validate(answer.content).name


@server.prompt()
async def greeting(tone: str, ctx: Context) -> str | InputRequiredResult:
    name = await name_for(ctx, "Greet whom?")
    return name if isinstance(name, InputRequiredResult) else f"A {tone} welcome to {name}."


# Only a template may ask.
@server.resource("interop://{what}")
async def letter(what: str, ctx: Context) -> str | InputRequiredResult:
    name = await name_for(ctx, "To whom?")
    return name if isinstance(name, InputRequiredResult) else f"Dear {name}."


@server.resource(BOARD)
def board() -> str:
    return "A board."


def end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def over_http() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    anyio.run(lambda: uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    server.run("stdio") if "--stdio" in sys.argv else over_http()
