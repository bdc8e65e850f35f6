"""Runs real clients behind `ttsr proxy`: `run.py TTSR FOLDER [CLIENT…]`. FOLDER has the installed clients.

For each client: a plain reply equals the direct one, with as many requests; a reply that a rule stops shows the reason,
and the client does not ask again; a stopped call does not run.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from provider import FORBIDDEN, Provider  # noqa: E402

HERE = pathlib.Path(__file__).parent
PACK = f"""
schema = 1
[pack]
name = "e2e"
grants = ["abort"]
[rule.stop]
description = "A word that must not be written."
severity = "error"
action = "abort"
hold = true
on = ["text", "reasoning", "tool-input"]
match.any = [{{ literal = "{FORBIDDEN}" }}]
examples.match = ["{FORBIDDEN}"]
"""
REASON = "[ttsr: reply stopped by rule e2e/stop"
CODEX = """
model = "m"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
model_provider = "openai"
[analytics]
enabled = false
"""


def clients(folder):
    node = ["node", str(folder / "node" / "sdk.mjs")]
    python = [str(folder / "python" / "bin" / "python"), str(HERE / "sdk.py")]
    bins = folder / "node" / "node_modules" / ".bin"
    claude = [str(bins / "claude"), "-p", "--dangerously-skip-permissions"]
    codex = [str(bins / "codex"), "exec", "--skip-git-repo-check"]
    found = {f"node-{name}": (node + [name], False) for name in ("anthropic", "chat", "responses", "ai")}
    found |= {f"python-{name}": (python + [name], False)
              for name in ("anthropic", "anthropic-whole", "chat", "responses")}
    found |= {"claude": (claude, True), "codex": (codex, True)}
    return found


def run(command, prompt, provider, proxy, is_agent):
    """Returns the output, the exit code, the number of requests, and true if the tool ran."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="ttsr-e2e-"))
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(CODEX)
    (home / "pack.toml").write_text(PACK)
    (home / "work").mkdir()
    environment = dict(os.environ, HOME=str(home), CODEX_HOME=str(home / ".codex"), ANTHROPIC_API_KEY="dummy",
                       OPENAI_API_KEY="dummy", ANTHROPIC_BASE_URL=provider.url, OPENAI_BASE_URL=f"{provider.url}/v1",
                       CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1", IS_SANDBOX="1")
    provider.requests.clear()
    command = command + [prompt]
    if not proxy and pathlib.Path(command[0]).name == "codex":
        settings = {"model_provider": '"direct"', "model_providers.direct.name": '"direct"',
                    "model_providers.direct.base_url": f'"{provider.url}/v1"',
                    "model_providers.direct.env_key": '"OPENAI_API_KEY"',
                    "model_providers.direct.wire_api": '"responses"'}
        extra = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        command[1:1] = extra
    if proxy:
        command = [proxy, "proxy", "--pack", str(home / "pack.toml"), "--"] + command
    try:
        done = subprocess.run(command, cwd=home / "work", env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        output, code = done.stdout, done.returncode
        if is_agent:
            output += done.stderr
    except subprocess.TimeoutExpired:
        output, code = "no end within 120 seconds", None
    ran = (home / "work" / FORBIDDEN).exists()
    shutil.rmtree(home, ignore_errors=True)
    return output, code, len(provider.requests), ran


def check(name, command, is_agent, provider, proxy):
    """Returns the problems of a client."""
    problems = []

    def expect(is_met, what):
        if not is_met:
            problems.append(what)

    direct, direct_code, direct_count, _ = run(command, "Please answer. case:plain", provider, None, is_agent)
    behind, code, count, _ = run(command, "Please answer. case:plain", provider, proxy, is_agent)
    expect("All is well." in direct, f"without the proxy: {direct_code} {direct[-400:]!r}")
    expect("All is well." in behind, f"plain: {code} {behind[-400:]!r}")
    expect((code, count) == (direct_code, direct_count), f"plain: {code}, {count} requests, not {direct_count}")
    if not is_agent:
        expect(behind == direct, f"plain: {behind!r} is not {direct!r}")
    stopped, code, count, _ = run(command, "Please answer. case:text", provider, proxy, is_agent)
    expect(REASON in stopped, f"text: no reason in {stopped[-400:]!r}")
    expect(FORBIDDEN not in stopped.replace("case:text", ""), "text: the word was shown")
    expect((code, count) == (0, direct_count), f"text: {code}, {count} requests")
    if is_agent:
        _, _, _, ran = run(command, "Please run it. case:tool", provider, None, is_agent)
        expect(ran, "without the proxy the tool did not run")
        stopped, code, count, ran = run(command, "Please run it. case:tool", provider, proxy, is_agent)
        expect(not ran, "the stopped call ran")
        expect(REASON in stopped and count == direct_count, f"tool: {code}, {count} requests, {stopped[-400:]!r}")
    return problems


def main():
    proxy, folder = sys.argv[1], pathlib.Path(sys.argv[2]).absolute()
    shutil.copy(HERE / "sdk.mjs", folder / "node" / "sdk.mjs")
    provider = Provider.start()
    failed = 0
    for name, (command, is_agent) in clients(folder).items():
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        problems = check(name, command, is_agent, provider, proxy)
        print(f"{name:<24}{'ok' if not problems else 'FAILED'}", flush=True)
        for problem in problems:
            print(f"    {problem}", flush=True)
        failed += bool(problems)
    sys.exit(1 if failed else 0)


main()
