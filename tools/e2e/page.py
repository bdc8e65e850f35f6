"""The page docs/clients.md: how each client is started behind the proxy, and what it shows when a rule acts."""

import concurrent.futures
import dataclasses
import os
import re
import textwrap

from provider import RETRIED, SECRET, STOPPED, Provider

HEAD = f"""# What clients show

The clients of `scripts/e2e`: the lines that run each of them behind `ttsr proxy`, and what it showed when a rule acted.
`TTSR_E2E=1 scripts/e2e --page` writes this page, with a scripted provider and a pack whose rules stop
`{STOPPED}`, retry `{RETRIED}` and redact `{SECRET}`. Each block has the standard output
and, after `stderr:`, the lines of the standard error that name a rule or come from the proxy.

Text before a match is released as it arrives, so its beginning may be shown. Of a call that is stopped nothing arrives,
and it does not run. `observe` and `warn` change nothing that a client shows. The message of `inject` is in the next
request, where only the model reads it. [proxy.md](proxy.md) has what each action does on each API, and what the proxy
does not protect against.
"""

# A case, the options of the proxy, the heading, and true if it is for agents alone.
CASES = [
    ("text", (), "A text is stopped", False),
    ("text", ("--hard",), "A text is stopped with `--hard`", False),
    ("tool", (), "A call is stopped", True),
    ("tool", ("--hard",), "A call is stopped with `--hard`", True),
    ("retry", (), "A text is retried", False),
    ("redact", (), "A text is redacted", False),
]


@dataclasses.dataclass
class Section:
    title: str
    # The name in `run.py`.
    client: str
    # The lines that run the client.
    lines: list
    # What the client cannot do behind the proxy, or does in a way of its own.
    note: str = ""
    # The standard output before this text is of the start of the client.
    begins: str = ""


ANTHROPIC_KEY = "export ANTHROPIC_API_KEY=…"
ANTHROPIC_LOGIN = f"{ANTHROPIC_KEY}           # or a login"
OPENAI_KEY = "export OPENAI_API_KEY=…"
OPENAI_LOGIN = f"{OPENAI_KEY}              # or a login"
INSTALL = "cargo install --path crates/cli      # in a clone of this repository"
SECTIONS = [
    Section("Claude Code 2.1.197", "claude", [INSTALL, ANTHROPIC_LOGIN, "ttsr proxy -- claude"],
            "Claude Code asks for `HEAD /` first, which passes and counts as a request."),
    Section("Codex 0.169.0", "codex", [INSTALL, OPENAI_LOGIN, "ttsr proxy -- codex"],
            "Codex shows the beginning of a text and the reason as two messages. It writes the conversation on the standard "
            "error, and the last message on the standard output."),
    Section("Gemini CLI 0.61.0", "gemini-login", [INSTALL, "ttsr proxy -- gemini                 # with a Google login"],
            "With a Google login, Gemini CLI asks Code Assist for its user and settings first. These requests pass and are "
            "counted. The exit code is 0 with `--hard` too, because Gemini CLI takes `SAFETY` after a text for an end."),
    Section("OpenCode 1.18.33", "opencode-anthropic", [INSTALL, ANTHROPIC_LOGIN, "ttsr proxy -- opencode"]),
    Section("aider 0.86.2", "aider", [INSTALL, OPENAI_KEY, "ttsr proxy -- aider --model openai/MODEL"],
            "aider has no calls of tools: it edits files as its texts say. The exit code is 0 with `--hard` too, because aider "
            "does not tell `content_filter` from other ends.", "HISTORY.html#release-notes"),
    Section("pi 0.73.1", "pi-messages",
            [INSTALL, "ttsr proxy &", 'pi    # with "baseUrl": "http://127.0.0.1:8787/anthropic" in ~/.pi/agent/models.json'],
            "pi reads its base URL from that file alone, so the proxy runs as a server."),
    Section("oh-my-pi 18.2.3", "omp-messages",
            [INSTALL, "ttsr proxy &", "omp   # with baseUrl: http://127.0.0.1:8787/anthropic in ~/.omp/agent/models.yml"],
            "omp reads its base URL from that file alone, so the proxy runs as a server."),
    Section("Anthropic SDK for Node 1.13", "node-anthropic", [INSTALL, ANTHROPIC_KEY, "ttsr proxy -- node program.mjs"],
            "With `--hard` the stream of the SDK throws an `APIError`."),
    Section("Anthropic SDK for Python 2.13", "python-anthropic", [INSTALL, ANTHROPIC_KEY, "ttsr proxy -- python program.py"],
            "With `--hard` the stream of the SDK raises an `APIStatusError`."),
    Section("OpenAI SDK for Node 7.57, Chat", "node-chat", [INSTALL, OPENAI_KEY, "ttsr proxy -- node program.mjs"],
            "With `--hard` the `finish_reason` is `content_filter`, which the program must look at."),
    Section("OpenAI SDK for Python 3.57, Responses", "python-responses",
            [INSTALL, OPENAI_KEY, "ttsr proxy -- python program.py"],
            "With `--hard` the last event is `response.failed`, which the program must look at."),
]


def shown(section, run):
    """Returns what a run showed, without the texts of its start and without paths and numbers of this machine."""
    output = run.output.split(section.begins)[-1] if section.begins else run.output
    errors = [line for line in run.errors.splitlines() if "ttsr: " in line]
    lines = output.strip().splitlines() + [f"stderr: {line}" for line in dict.fromkeys(errors)]
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", "\n".join(line.rstrip() for line in lines))
    text = re.sub(r"Tokens: .*", "Tokens: …", text)
    return re.sub(r"\n{3,}", "\n\n", text)


def requests(count):
    return f"{count} request{'' if count == 1 else 's'}"


def write(path, known, proxy, folder, run):
    """Runs the clients and writes the page."""
    def one(section, case, options):
        return run(known[section.client], case, Provider.start(), proxy, folder, options)

    out = [HEAD]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {}
        for section in SECTIONS:
            is_agent = known[section.client].is_agent
            for case, options, heading, is_for_agents in CASES:
                if is_agent or not is_for_agents:
                    runs[section.title, heading] = pool.submit(one, section, case, options)
        for section in SECTIONS:
            out.append(f"## {section.title}\n\n```sh\n" + "\n".join(section.lines) + "\n```\n")
            if section.note:
                out.append(textwrap.fill(section.note, 120) + "\n")
            for _, _, heading, _ in CASES:
                if done := runs.get((section.title, heading)):
                    done = done.result()
                    end = f"{heading}: exit code {done.code}, {requests(len(done.requests))} to the provider."
                    out.append(f"{end}\n\n```text\n{shown(section, done)}\n```\n")
    path.write_text("\n".join(out))
    print(f"wrote {path}")
