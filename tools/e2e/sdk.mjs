// Asks a model once with an SDK for Node and prints the text: `sdk.mjs CLIENT PROMPT`.
const [client, prompt] = process.argv.slice(2);
const messages = [{ role: "user", content: prompt }];
let text = "";
if (client === "anthropic") {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const stream = new Anthropic({ apiKey: "dummy" }).messages.stream({ model: "m", max_tokens: 100, messages });
  stream.on("text", (piece) => (text += piece));
  await stream.finalMessage();
} else if (client === "chat") {
  const { default: OpenAI } = await import("openai");
  const stream = await new OpenAI({ apiKey: "dummy" }).chat.completions.create({ model: "m", messages, stream: true });
  for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
} else if (client === "responses") {
  const { default: OpenAI } = await import("openai");
  const stream = new OpenAI({ apiKey: "dummy" }).responses.stream({ model: "m", input: prompt });
  stream.on("response.output_text.delta", (event) => (text += event.delta));
  await stream.finalResponse();
} else if (client === "ai") {
  const { streamText } = await import("ai");
  const { createOpenAI } = await import("@ai-sdk/openai");
  const model = createOpenAI({ apiKey: "dummy", baseURL: process.env.OPENAI_BASE_URL }).chat("m");
  for await (const piece of streamText({ model, prompt }).textStream) text += piece;
} else {
  throw new Error(`unknown client ${client}`);
}
console.log(text);
