"""Small templates for every name of the template language with each of its arguments.

Every filter, test, method and function is tried on many values and with many arguments; statements,
white space and scopes have lists and generators of their own. What Python refuses stays in, so that
it is known how often both refuse.
"""
import itertools
import json
import pathlib
import random

# Formats, expressions and statements, one template each.
LISTS = json.loads(
    pathlib.Path(__file__).with_name("jinja_lists.json").read_text(encoding="utf8")
)

VALUES = {
    "none": "none",
    "true": "true",
    "zero": "0",
    "seven": "7",
    "negative": "-3",
    "big": "12345678901234567890",
    "half": "2.5",
    "third": "2.675",
    "small": "0.00001",
    "huge": "1e20",
    "whole": "3.0",
    "empty_text": "''",
    "word": "'hello World'",
    "spaced": "'  a b\\tc \\n'",
    "lines": "'one\\ntwo\\r\\n\\nthree'",
    "quotes": "'it\\'s \"x\"'",
    "html": "'<b>&amp;\"q\" \\'s\\'</b>'",
    "unicode": "'Ünïcödé ß ΣΑΣ ǆ ﬁ 日本 👍'",
    "digits": "' 42 '",
    "decimal": "'-1.50'",
    "letters": "'12abc'",
    "list": "[3, 1, 2]",
    "words": "['b', 'A', 'c', 'a']",
    "mixed": "[1, 'a', none, true, 2.0, [1], {'k': 'v'}]",
    "empty_list": "[]",
    "tuple": "(1, 'x')",
    "single": "(1,)",
    "dict": "{'b': 1, 'a': 'x', 'C': [1, {'d': none}]}",
    "odd_keys": "{1: 'one', none: 2, 2.5: 'f', true: 't'}",
    "empty_dict": "{}",
    "people": "people",
    "range": "range(4)",
    "undefined": "missing",
    "nested": "[[1, 2], [3, 4], [5, 6]]",
    "context": "dict",
}

CONTEXT = {
    "people": [
        {"name": "Zoë", "age": 30, "tags": ["x"], "home": {"city": "Rom"}},
        {"name": "adam", "age": 25, "tags": [], "home": {"city": "Bonn"}},
        {"name": "Bea", "age": 30, "home": {"city": "rom"}},
    ],
    "dict": {"b": True, "a": None, "items": 1, "f": 1.0, "text": "it's"},
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Hi\n"},
        {"role": "assistant", "content": None, "tool_calls": []},
    ],
    "tree": [
        {"name": "a", "children": [{"name": "b", "children": []}, {"name": "c", "children": []}]},
        {"name": "d", "children": []},
    ],
    "big": 18446744073709551615,
    "flag": True,
    "nothing": None,
    "word": "Word",
}

# Filters and the arguments that they are tried with.
FILTERS = {
    "abs": [""],
    "attr": ["('upper')", "('name')"],
    "batch": ["(2)", "(2, 'x')", "(3, fill_with=0)", "(linecount=2)"],
    "capitalize": [""],
    "center": ["", "(20)", "(width=7)"],
    "count": [""],
    "d": ["", "('d')", "('d', true)"],
    "default": ["", "('d')", "('d', true)", "(default_value=1, boolean=true)", "(none)"],
    "dictsort": ["", "(true)", "(false, 'value')", "(by='key', reverse=true)", "(by='other')"],
    "e": [""],
    "escape": [""],
    "filesizeformat": ["", "(true)", "(binary=true)"],
    "first": [""],
    "float": ["", "(1.5)", "(default='x')"],
    "forceescape": [""],
    "format": ["(1)", "('a', 'b')", "(x=1)"],
    "groupby": ["('age')", "('name')", "('home.city')", "('home.city', case_sensitive=true)",
                "('tags', default='none')", "(0)"],
    "indent": ["", "(2)", "(2, true)", "(2, true, true)", "('> ')", "(first=true)",
               "(width=1, blank=true)"],
    "int": ["", "(5)", "(0, 16)", "(default=9)", "(base=8)", "(0, 2)"],
    "items": [""],
    "join": ["", "(', ')", "(d='-')", "(', ', attribute='name')", "('|', 'home.city')", "(1)"],
    "last": [""],
    "length": [""],
    "list": [""],
    "lower": [""],
    "map": ["('upper') | list", "('string') | list", "(attribute='name') | list",
            "(attribute='home.city') | list", "(attribute='tags', default='no') | list",
            "('default', 'x') | list", "('length') | list", "(attribute=0) | list",
            "('int', base=16) | list", "(attribute='a', other=1) | list"],
    "max": ["", "(true)", "(attribute='age')", "(case_sensitive=true)", "(attribute='name')"],
    "min": ["", "(true)", "(attribute='age')", "(attribute='name')"],
    "pprint": [""],
    "reject": [" | list", "('odd') | list", "('none') | list", "('string') | list",
               "('>', 1) | list", "('in', [1, 2]) | list"],
    "rejectattr": ["('tags') | list", "('age', 'eq', 30) | list", "('home.city', 'lower') | list"],
    "replace": ["('l', 'L')", "('l', 'L', 1)", "('', '-')", "('o', '')", "(old='a', new='b')",
                "('1', 2)", "('l', 'L', count=1)"],
    "reverse": [" | list", ""],
    "round": ["", "(1)", "(2)", "(-1)", "(1, 'ceil')", "(1, 'floor')", "(method='floor')",
              "(precision=2)", "(0, 'other')"],
    "safe": [""],
    "select": [" | list", "('odd') | list", "('string') | list", "('none') | list",
               "('equalto', 1) | list", "('<', 2) | list", "('divisibleby', 2) | list",
               "('sequence') | list"],
    "selectattr": ["('tags') | list", "('age', 'eq', 30) | list", "('tags', 'defined') | list",
                   "('home.city', 'equalto', 'Rom') | list", "('name', 'in', ['Bea']) | list"],
    "slice": ["(2) | list", "(2, 'x') | list", "(3, fill_with=0) | list", "(slices=4) | list"],
    "sort": ["", "(true)", "(reverse=true)", "(case_sensitive=true)", "(attribute='age')",
             "(attribute='age,name')", "(attribute='home.city', reverse=true)", "(false, true)",
             "(attribute=0)"],
    "string": ["", " | length"],
    "striptags": [""],
    "sum": ["", "(attribute='age')", "(start=10)", "('age', 1.5)", "(start=[])"],
    "title": [""],
    "tojson": ["", "(true)", "(ensure_ascii=true)", "(indent=2)", "(indent=0)", "(indent='--')",
               "(separators=(',', ':'))", "(sort_keys=true)", "(false, 1, none, true)",
               "(indent=4, sort_keys=true)", "(4)"],
    "trim": ["", "('x')", "(' ao')", "(chars='h')", "(none)"],
    "truncate": ["", "(5)", "(5, true)", "(5, false, '..')", "(5, leeway=0)", "(9, true, '', 0)",
                 "(2)"],
    "unique": [" | list", "(true) | list", "(attribute='age') | list",
        "(case_sensitive=true) | list",
               "(false, 'home.city') | list"],
    "upper": [""],
    "urlencode": [""],
    "wordcount": [""],
    "wordwrap": ["", "(5)", "(5, false)", "(5, wrapstring='|')"],
    "xmlattr": ["", "(false)"],
}

TESTS = {
    "boolean": [""], "callable": [""], "defined": [""], "undefined": [""], "none": [""],
    "divisibleby": ["(2)", " 3", "(num=2)"], "even": [""], "odd": [""], "true": [""],
    "false": [""], "string": [""], "number": [""], "integer": [""], "float": [""],
    "iterable": [""], "sequence": [""], "mapping": [""], "lower": [""], "upper": [""],
    "escaped": [""], "filter": [""], "test": [""],
    "eq": ["(7)", " 7", "('')", "(none)"], "equalto": ["(2.5)"], "ne": ["(7)"],
    "sameas": ["(true)", "(7)", " none"], "lt": ["(7)", "('m')"], "lessthan": ["(7)"],
    "le": ["(7)"], "gt": ["(7)"], "greaterthan": ["(2)"], "ge": ["(3)"],
    "in": ["([1, 7, 'a'])", "('hello World')", "({'a': 1})", "(range(9))"],
}

STRING_METHODS = {
    "capitalize": ["()"], "casefold": ["()"], "center": ["(20)", "(21, '*')", "(6)"],
    "count": ["('o')", "('')", "('o', 5)", "('o', 0, 5)"],
    "endswith": ["('d')", "(('x', 'd'))", "('o', 0, 5)", "('')"],
    "expandtabs": ["()", "(4)", "(tabsize=2)"],
    "find": ["('o')", "('o', 5)", "('z')", "('', 3)", "('o', -3)", "('o', 5, 6)"],
    "format": ["()", "(1, 2)"], "index": ["('o')", "('zz')"], "isalnum": ["()"], "isalpha": ["()"],
    "isascii": ["()"], "isdecimal": ["()"], "isdigit": ["()"], "isidentifier": ["()"],
    "islower": ["()"], "isnumeric": ["()"], "isprintable": ["()"], "isspace": ["()"],
    "istitle": ["()"], "isupper": ["()"], "join": ["(['a', 'b'])", "('xyz')", "([1])"],
    "ljust": ["(14)", "(14, '.')"], "lower": ["()"], "lstrip": ["()", "('h ')"],
    "partition": ["('o')", "(' ')", "('zz')"], "removeprefix": ["('he')"],
    "removesuffix": ["('ld')"], "replace": ["('o', '0')", "('o', '0', 1)", "('', '.')",
        "('l', '')"],
    "rfind": ["('o')", "('o', 0, 5)", "('q')"], "rindex": ["('o')"],
    "rjust": ["(14)", "(14, '.')"], "rpartition": ["('o')", "('zz')"],
    "rsplit": ["()", "('o')", "('o', 1)", "(none, 1)", "(' ')", "(maxsplit=1)"],
    "rstrip": ["()", "('d')"],
    "split": ["()", "('o')", "('o', 1)", "(none, 1)", "(' ')", "(sep='l', maxsplit=1)", "('')"],
    "splitlines": ["()", "(true)", "(keepends=true)"],
    "startswith": ["('h')", "('l', 2)", "(('x', 'h'))", "('')", "('he', 0, 1)"],
    "strip": ["()", "('hd')", "(none)"], "swapcase": ["()"], "title": ["()"], "upper": ["()"],
    "zfill": ["(14)", "(3)"],
}

STRINGS = ["empty_text", "word", "spaced", "lines", "quotes", "html", "unicode", "digits",
           "decimal", "letters"]

CONTAINER_METHODS = {
    "dict": ["keys()", "values()", "items()", "get('a')", "get('q')", "get('q', 5)",
        "keys() | list",
             "values() | list", "items() | list", "copy()", "items", "get"],
    "context": ["items()", "items() | length", "keys() | join(',')", "items", "text", "get('f')"],
    "list": ["index(1)", "index(9)", "count(1)", "copy()", "append(1)", "sort()"],
    "mixed": ["count(1)", "index('a')"],
    "tuple": ["index('x')", "count(1)"],
    "range": ["index(2)", "count(1)"],
    "half": ["is_integer()"], "whole": ["is_integer()"], "seven": ["bit_length()"],
}


ARITHMETIC = ["+", "-", "*", "/", "//", "%", "**"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
NUMBERS = ["0", "1", "7", "-3", "2.5", "-0.5", "true", "10000000000", "1e3", "0.1"]
OPERANDS = ["none", "seven", "half", "word", "empty_text", "list", "tuple", "dict", "true",
            "undefined", "range", "nested"]



# Pieces that white space around tags is tried with.
EDGES = ["", " ", "\n", "  \n", "\n  ", "\t", "\r\n", "a\n", "\n\n", "x ", " y", "\u00a0", "\x0b"]
TAGS = [
    "{% if true %}",
    "{%- if true %}",
    "{% if true -%}",
    "{%- if true -%}",
    "{%+ if true %}",
    "{% if true +%}",
]
ENDS = [
    "{% endif %}",
    "{%- endif %}",
    "{% endif -%}",
    "{%- endif -%}",
    "{% endif +%}",
    "{%+ endif %}",
]
PRINTS = [
    "{{ 1 }}",
    "{{- 1 }}",
    "{{ 1 -}}",
    "{{- 1 -}}",
    "{# c #}",
    "{#- c -#}",
    "{# c -#}",
    "{%- set q = 1 %}",
    "{% raw %} r {% endraw %}",
    "{%- raw -%} r {%- endraw -%}",
]


def generated():
    """All snippets, in a fixed order."""
    for name, calls in FILTERS.items():
        for value, arguments in itertools.product(VALUES.values(), calls):
            yield f"{{{{ ({value}) | {name}{arguments} }}}}"
    for name, calls in TESTS.items():
        for value, arguments in itertools.product(VALUES.values(), calls):
            yield f"{{{{ ({value}) is {name}{arguments} }}}}"
    for name, calls in STRING_METHODS.items():
        for value, arguments in itertools.product(STRINGS, calls):
            yield f"{{{{ ({VALUES[value]}).{name}{arguments} }}}}"
    for value, calls in CONTAINER_METHODS.items():
        for call in calls:
            yield f"{{{{ ({VALUES[value]}).{call} }}}}"
    for left, symbol, right in itertools.product(NUMBERS, ARITHMETIC + COMPARISONS[:6], NUMBERS):
        # Python's integers have no limit, and a power of that size no end.
        if not (symbol == "**" and right == "10000000000"):
            yield f"{{{{ ({left}) {symbol} ({right}) }}}}"
    operators = ARITHMETIC + COMPARISONS + ["~", "and", "or"]
    for left, symbol, right in itertools.product(OPERANDS, operators, OPERANDS):
        yield f"{{{{ ({VALUES[left]}) {symbol} ({VALUES[right]}) }}}}"
    for value in VALUES.values():
        yield (
            f"{{{{ {value} }}}}|{{{{ [{value}] }}}}|"
            f"{{{{ {value} ~ '' }}}}|{{{{ {{'k': {value}}} }}}}"
        )
        yield f"{{{{ ({value})[0] }}}}|{{{{ ({value})[-1] }}}}|{{{{ ({value})['a'] }}}}"
        yield f"{{{{ ({value})[1:] }}}}|{{{{ ({value})[::-1] }}}}|{{{{ ({value})[:2] }}}}"
        yield f"{{% for x in {value} %}}{{{{ x }}}},{{% else %}}empty{{% endfor %}}"
        yield f"{{% if {value} %}}yes{{% else %}}no{{% endif %}}{{{{ not {value} }}}}"
    for expression in LISTS["formats"] + LISTS["expressions"]:
        yield f"{{{{ {expression} }}}}"
    yield from LISTS["statements"]
    draw = random.Random(1)
    for _ in range(1500):
        parts = [draw.choice(EDGES)]
        for _ in range(draw.randint(1, 3)):
            if draw.random() < 0.5:
                for pieces in (TAGS, EDGES, PRINTS, EDGES, ENDS):
                    parts.append(draw.choice(pieces))
            else:
                parts.append(draw.choice(PRINTS))
            parts.append(draw.choice(EDGES))
        yield "".join(parts)
    letters = "abAB<>&'\"%{}\\ \n\täßΣ日👍"
    names = list(STRING_METHODS)
    for _ in range(600):
        text = "".join(draw.choice(letters) for _ in range(draw.randint(0, 8)))
        name = draw.choice(names)
        yield f"{{{{ ({text!r}).{name}{draw.choice(STRING_METHODS[name])} }}}}"
        yield f"{{{{ [{text!r}, {{{text!r}: {text!r}}}] }}}}{{{{ {text!r} | tojson(true) }}}}"
