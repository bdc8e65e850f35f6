// Runs the module in Node: loads a pack, pushes a reply delta by delta, and expects the hit where it becomes certain.
// Then loads built-in packs, reads text under each of them, and expects that the memory of the module stays small.
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

const push = (reply, delta) => withText(delta, (address, length) => ttsr.ttsr_push(reply, address, length));
const hits = ["Then I call Box ", "::", " le", "ak(value)."].map((delta) => push(reply, delta));
assert.deepEqual(hits, [0, 0, 0, 1]);
assert.equal(ttsr.ttsr_end(reply), 23n);
const told = new Uint8Array(ttsr.memory.buffer, ttsr.ttsr_message(reply), ttsr.ttsr_message_length(reply));
assert.equal(new TextDecoder().decode(told), "Box::leak is never what this code base wants");
ttsr.ttsr_close(reply);
console.log("hit at byte 23, reported with delta 4 of 4");

// A module's memory never shrinks, and whatever is allocated in it counts, used or not.
const pageBytes = 65536;
const pages = () => ttsr.memory.buffer.byteLength / pageBytes;
assert(pages() <= 96, `one rule takes ${pages()} pages`);

let seed = 7;
const random = (below) => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * below);
};

// The table of this rule outgrows its first room, and the hit is the same in the next one.
const growing = `
schema = 1
[pack]
name = "growing"
[rule.twelve]
description = "a one, eleven digits and an x"
match.any = [{ regex = '[01]*1[01]{11}x' }]
examples.match = ["1000000000001x"]
`;
const before = pages();
const guard = withText(growing, ttsr.ttsr_open);
const loaded = pages();
for (let round = 0; round < 64; round++) {
  assert.equal(push(guard, Array.from({ length: 4096 }, () => "01"[random(2)]).join("")), 0);
}
assert.equal(push(guard, "100000000000x"), 1);
ttsr.ttsr_close(guard);
console.log(`a table that grows: ${before} pages before, ${loaded} loaded, ${pages()} after 256 KiB of text`);
assert(pages() > loaded, "the table grows");

const words = ["let ", "value", " = ", "the ", "user's ", "\n", "rm -f ", "target/", "42", "; ", "// ", "naïve", " token:"];
const secret = ` ghp_${Array.from({ length: 36 }, () => "0123456789abcdefghijklmnopqrstuvwxyz"[random(36)]).join("")} `;
for (const [name, expected] of [["lang/rust", 0], ["std/injection", 0], ["std/secrets", 1]]) {
  const before = pages();
  const guard = withText(name, ttsr.ttsr_open_builtin);
  assert.notEqual(guard, 0, `${name} loads`);
  const loaded = pages();
  let hits = 0;
  for (let length = 0; length < 256 * 1024; ) {
    const delta = words[random(words.length)] + words[random(words.length)];
    hits += push(guard, delta);
    length += delta.length;
  }
  hits += push(guard, secret);
  assert.equal(hits, expected, `hits of ${name}`);
  ttsr.ttsr_close(guard);
  console.log(`${name}: ${before} pages before, ${loaded} loaded, ${pages()} after 256 KiB of text`);
}
assert(pages() <= 256, `the module takes ${pages()} pages`);
