"""Jinja2 as transformers sets it up for chat templates (Debian's python3-jinja2)."""
import copy
import datetime
import json
import re

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# What strftime_now reads: always noon of 25 July 2024.
NOW = datetime.datetime(2024, 7, 25, 12, 0, 0)


class Generation(Extension):
    """{% generation %} marks what the assistant writes; it prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def _raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def make_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


def render(source, context):
    """{"text": ...} or {"error": ...}."""
    try:
        # Some of Jinja's filters change what they are given.
        text = make_environment().from_string(source).render(**copy.deepcopy(context))
        text.encode()
        # Python prints an address for what has no text of its own.
        if re.search(r" at 0x[0-9a-f]{6,}>|<(function|class|Macro|Cycler|LoopContext) ", text):
            return {"error": "prints an object of Python's"}
        return {"text": text}
    except Exception as error:  # whatever a template makes Python raise
        return {"error": f"{type(error).__name__}: {error}"}
