"""Asks a model once with an SDK for Python and prints the text: `sdk.py CLIENT PROMPT`."""

import os
import sys

client, prompt = sys.argv[1:3]
user = [{"role": "user", "content": prompt}]
if client == "anthropic":
    import anthropic
    api = anthropic.Anthropic(api_key="dummy")
    with api.messages.stream(model="m", max_tokens=100, messages=user) as stream:
        print("".join(stream.text_stream))
elif client == "anthropic-whole":
    import anthropic
    api = anthropic.Anthropic(api_key="dummy")
    print(api.messages.create(model="m", max_tokens=100, messages=user).content[0].text)
elif client == "chat":
    import openai
    api = openai.OpenAI(api_key="dummy", base_url=os.environ["OPENAI_BASE_URL"])
    stream = api.chat.completions.create(model="m", messages=user, stream=True)
    print("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
elif client == "responses":
    import openai
    api = openai.OpenAI(api_key="dummy", base_url=os.environ["OPENAI_BASE_URL"])
    with api.responses.stream(model="m", input=prompt) as stream:
        print("".join(event.delta for event in stream if event.type == "response.output_text.delta"))
else:
    sys.exit(f"unknown client {client}")
