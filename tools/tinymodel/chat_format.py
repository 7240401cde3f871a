"""The chat format: special tokens, the template that ships with the model, and the same format in
plain Python."""

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = [END_OF_TEXT, START, END]  # ids 0, 1, 2

# A plain subset of Jinja: for, if, one filter. evaluate.py checks that it renders what render()
# does.
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + (message['content'] | trim) + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def render(messages, add_generation_prompt: bool = False) -> str:
    """[[role, content], ...] as text."""
    text = "".join(f"{START}{role}\n{content.strip()}{END}\n" for role, content in messages)
    return text + (f"{START}assistant\n" if add_generation_prompt else "")


def document_text(document: dict) -> str:
    """A corpus document as training text, closed by the end-of-text token."""
    body = document["text"] if "text" in document else render(document["messages"])
    return body + END_OF_TEXT
