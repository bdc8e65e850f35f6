// Runs the module in Node: loads a pack, pushes a reply delta by delta, and expects the hit where it becomes certain.
//
//     node run.mjs MODULE.wasm
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

const module = await WebAssembly.compile(await readFile(process.argv[2]));
assert.deepEqual(WebAssembly.Module.imports(module), [], "the module needs nothing of its host");
const { exports: ttsr } = await WebAssembly.instantiate(module, {});

/** Calls `use` with the address and the length of the text in the module's memory. */
function withText(text, use) {
  const bytes = new TextEncoder().encode(text);
  const address = ttsr.ttsr_alloc(bytes.length);
  new Uint8Array(ttsr.memory.buffer, address, bytes.length).set(bytes);
  try {
    return use(address, bytes.length);
  } finally {
    ttsr.ttsr_free(address, bytes.length);
  }
}

const pack = `
schema = 1
[pack]
name = "demo"
[rule.no-box-leak]
description = "Box::leak is never what this code base wants"
match.any = [{ regex = 'Box\\s*::\\s*leak' }]
examples.match = ["Box::leak(x)"]
[[allow]]
rules = ["demo/no-box-leak"]
paths = ["benches/**"]
until = 2999-01-01
reason = "a bench may leak"
`;
assert.equal(withText("schema = 1\n[rule.x]\n", ttsr.ttsr_open), 0, "a pack with errors does not load");
const reply = withText(pack, ttsr.ttsr_open);
assert.notEqual(reply, 0, "the pack loads");

const push = (delta) => withText(delta, (address, length) => ttsr.ttsr_push(reply, address, length));
const hits = ["Then I call Box ", "::", " le", "ak(value)."].map(push);
assert.deepEqual(hits, [0, 0, 0, 1]);
assert.equal(ttsr.ttsr_end(reply), 23n);
const told = new Uint8Array(ttsr.memory.buffer, ttsr.ttsr_message(reply), ttsr.ttsr_message_length(reply));
assert.equal(new TextDecoder().decode(told), "Box::leak is never what this code base wants");
ttsr.ttsr_close(reply);
console.log("hit at byte 23, reported with delta 4 of 4");
