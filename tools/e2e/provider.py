"""A scripted provider on loopback: Messages, Chat Completions, Responses, Gemini and Code Assist, streamed or not.

The last word `case:NAME` of a request selects the reply:

    plain        a text
    text         a text with a word that makes a rule of this test stop the reply
    retry        a text with a word that makes a rule retry; a good text if the request has the message of that rule
    redact       a text with the secret
    tool         a call of a shell with the first word, if the request offers a shell; after its result, a text
    retry-tool   a call with the second word, or a good call, likewise
    secret       a call that prints the file with the secret; after its result, a text

Each request is recorded. Its number is part of the ids of the reply. `Provider.start()` serves in a thread of its own.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STOPPED = "forbidden-word"
RETRIED = "retry-word"
MESSAGE = "write-it-in-another-way"
SECOND = "second-try"
SECRET = "key-4fz0q8w1x7c2v9b3n5m6k0j8"
SECRET_FILE = "secret.txt"
PLAIN_TEXT = "All is well."
SECOND_TEXT = "All is well, at the second try."
SHELLS = ("Bash", "bash", "_bash", "exec_command", "run_shell_command", "shell_command", "shell")


def case_of(body):
    found = re.findall(r"case:([a-z-]+)", json.dumps(body))
    return found[-1] if found else "plain"


def has_result(body):
    text = json.dumps(body)
    kinds = ('"tool_result"', '"role": "tool"', '"function_call_output"', '"functionResponse"')
    return any(kind in text for kind in kinds)


def shell_of(body):
    """Returns the name and the schema of the shell that the request offers."""
    tools = [tool.get("function", tool) for tool in body.get("tools", [])]
    for function in [one for tool in tools for one in tool.get("functionDeclarations", [tool])]:
        if function.get("name") in SHELLS:
            schemas = (function.get(name) for name in ("input_schema", "parameters", "parametersJsonSchema"))
            return function["name"], next(filter(None, schemas), {})
    return None


def call_of(shell, command):
    name, schema = shell
    members = schema.get("properties", {})
    member = "cmd" if "cmd" in members else "command"
    is_list = members.get(member, {}).get("type") == "array"
    call = {member: ["sh", "-c", command] if is_list else command}
    for required in schema.get("required", []):
        call.setdefault(required, "Run a command")
    return name, json.dumps(call)


def reply_of(body):
    """Returns the text, or the name and the input of a call."""
    case = case_of(body)
    is_second = MESSAGE in json.dumps(body)
    commands = {"tool": f"touch {STOPPED}", "retry-tool": f"touch {SECOND if is_second else RETRIED}",
                "secret": f"cat {SECRET_FILE}"}
    shell = shell_of(body)
    if case in commands and shell and not has_result(body):
        return None, call_of(shell, commands[case])
    texts = {"text": f"It is a {STOPPED}, and more.",
             "redact": f"The key is {SECRET}, and more.",
             "retry": SECOND_TEXT if is_second else f"It is a {RETRIED}, and more."}
    return texts.get(case, PLAIN_TEXT), None


def pieces(text):
    return [text[at:at + 7] for at in range(0, len(text), 7)]


def messages(number, text, call):
    usage = {"input_tokens": 9, "output_tokens": 5}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage}
    block = {"type": "text", "text": ""} if call is None else {
        "type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": {}}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    for piece in pieces(text if call is None else call[1]):
        delta = {"type": "text_delta", "text": piece} if call is None else {
            "type": "input_json_delta", "partial_json": piece}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "end_turn" if call is None else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
           "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def whole_message(number, text, call):
    content = {"type": "text", "text": text} if call is None else {
        "type": "tool_use", "id": f"toolu_{number}", "name": call[0], "input": json.loads(call[1])}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": [content],
            "stop_reason": "end_turn" if call is None else "tool_use", "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 5}}


def chat(number, text, call):
    def chunk(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    yield chunk({"role": "assistant", "content": ""})
    if call is None:
        for piece in pieces(text):
            yield chunk({"content": piece})
    else:
        function = {"name": call[0], "arguments": ""}
        yield chunk({"tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]})
        for piece in pieces(call[1]):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield chunk({}, "stop" if call is None else "tool_calls")


def whole_chat(number, text, call):
    message = {"role": "assistant", "content": text}
    if call is not None:
        function = {"name": call[0], "arguments": call[1]}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if call is None else "tool_calls"}
    return {"id": f"c{number}", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
            "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}


def item_of(number, text, call):
    if call is None:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return {"type": "message", "id": f"item_{number}", "status": "completed", "role": "assistant",
                "content": [part]}
    return {"type": "function_call", "id": f"item_{number}", "status": "completed", "call_id": f"call_{number}",
            "name": call[0], "arguments": call[1]}


def whole_response(number, text, call, status="completed"):
    return {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": status, "model": "m",
            "output": [item_of(number, text, call)] if status == "completed" else [], "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0,
            "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
                      "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 14}}


def responses(number, text, call):
    events = [{"type": "response.created", "response": whole_response(number, text, call, "in_progress")}]
    at = {"item_id": f"item_{number}", "output_index": 0}
    item = item_of(number, text, call)
    empty = dict(item, status="in_progress", **({"content": []} if call is None else {"arguments": ""}))
    events.append({"type": "response.output_item.added", "output_index": 0, "item": empty})
    if call is None:
        at["content_index"] = 0
        part = item["content"][0]
        events.append({"type": "response.content_part.added", **at, "part": dict(part, text="")})
        events += [{"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
                   for piece in pieces(text)]
        events.append({"type": "response.output_text.done", **at, "text": text, "logprobs": []})
        events.append({"type": "response.content_part.done", **at, "part": part})
    else:
        events += [{"type": "response.function_call_arguments.delta", **at, "delta": piece}
                   for piece in pieces(call[1])]
        events.append({"type": "response.function_call_arguments.done", **at, "arguments": call[1]})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": whole_response(number, text, call)})
    for place, event in enumerate(events):
        yield dict(event, sequence_number=place)


def gemini_chunk(number, part, reason=None):
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "m", "responseId": f"r{number}",
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}}


def gemini(number, text, call):
    if call is None:
        for piece in pieces(text):
            yield gemini_chunk(number, {"text": piece})
        yield gemini_chunk(number, {"text": ""}, "STOP")
    else:
        yield whole_gemini(number, text, call)


def whole_gemini(number, text, call):
    part = {"text": text} if call is None else {
        "functionCall": {"id": f"call_{number}", "name": call[0], "args": json.loads(call[1])}}
    return gemini_chunk(number, part, "STOP")


def in_wrapper(number, chunk):
    return {"response": chunk, "traceId": f"t{number}"}


def code_assist(number, text, call):
    return (in_wrapper(number, chunk) for chunk in gemini(number, text, call))


def whole_code_assist(number, text, call):
    return in_wrapper(number, whole_gemini(number, text, call))


# The answers to other methods of Code Assist, which are not recorded.
CODE_ASSIST = {"loadCodeAssist": {"currentTier": {"id": "standard-tier"}, "cloudaicompanionProject": "project"}}
APIS = {
    "/v1internal:streamGenerateContent": (code_assist, whole_code_assist, False),
    "/v1internal:generateContent": (code_assist, whole_code_assist, False),
    ":streamGenerateContent": (gemini, whole_gemini, False),
    ":generateContent": (gemini, whole_gemini, False),
    "/messages": (messages, whole_message, True),
    "/chat/completions": (chat, whole_chat, False),
    "/responses": (responses, whole_response, True),
}


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.empty()

    def do_GET(self):
        self.empty()

    def empty(self):
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def whole(self, reply):
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.split("?")[0]
        resource, _, method = path.rpartition(":")
        api = next((api for suffix, api in APIS.items() if path.endswith(suffix)), None)
        if api is None and resource == "/v1internal":
            return self.whole(CODE_ASSIST.get(method, {}))
        if api is None:
            return self.empty()
        self.server.requests.append((path, body))
        stream, whole, is_named = api
        number = len(self.server.requests)
        text, call = reply_of(body.get("request", body))
        if not (body.get("stream") or method == "streamGenerateContent"):
            return self.whole(whole(number, text, call))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for event in stream(number, text, call):
                name = f"event: {event['type']}\n" if is_named else ""
                self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
            if not is_named and not resource:
                self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            # The proxy closes the request of a reply that it stops.
            pass


class Provider(ThreadingHTTPServer):
    daemon_threads = True

    @classmethod
    def start(cls):
        server = cls(("127.0.0.1", 0), Answer)
        server.requests = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"
