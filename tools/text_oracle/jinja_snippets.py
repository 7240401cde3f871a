"""Small templates for every name of the template language with each of its arguments.

Every filter, test, method and function is tried on many values and with many arguments; statements,
white space and scopes have lists and generators of their own. What Python refuses stays in, so that
it is known how often both refuse.
"""
import itertools
import random

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
    "unique": [" | list", "(true) | list", "(attribute='age') | list", "(case_sensitive=true) | list",
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
    "removesuffix": ["('ld')"], "replace": ["('o', '0')", "('o', '0', 1)", "('', '.')", "('l', '')"],
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
    "dict": ["keys()", "values()", "items()", "get('a')", "get('q')", "get('q', 5)", "keys() | list",
             "values() | list", "items() | list", "copy()", "items", "get"],
    "context": ["items()", "items() | length", "keys() | join(',')", "items", "text", "get('f')"],
    "list": ["index(1)", "index(9)", "count(1)", "copy()", "append(1)", "sort()"],
    "mixed": ["count(1)", "index('a')"],
    "tuple": ["index('x')", "count(1)"],
    "range": ["index(2)", "count(1)"],
    "half": ["is_integer()"], "whole": ["is_integer()"], "seven": ["bit_length()"],
}

FORMATS = [
    "'%s %s' % ('a', 1)", "'%d' % 3.7", "'%5d|%-5d|%05d' % (1, 2, 3)", "'%x %X %#x %o' % (255, 255, 255, 8)",
    "'%e %E' % (12345.678, 0.1)", "'%f %.2f %10.3f|%-10.1f|' % (1.5, 2.675, 3.14159, 2)",
    "'%g %G %g' % (0.0001, 1e20, 100000)", "'%r %a' % ('é', 'é')", "'%c%c' % (65, 'b')", "'%%' % ()",
    "'%(a)s %(b)d' % {'a': 'x', 'b': 2}", "'%s' % none", "'%s' % [1, 2]", "'%s' % {'a': 1}",
    "'%+d % d' % (1, 1)", "'%.3s|%5s|%-5s|' % ('abcdef', 'a', 'b')", "'%*d' % (5, 1)", "'%s' % (1, 2)",
    "'%s %s' % 'a'", "'%d' % 'a'", "'%i %u' % (1, 2)", "'abc' % ()", "'%.0f %.1f' % (0.5, 0.25)",
    "'%s' % true", "'%d' % true", "'%5.1f%%' % 12.34", "'%q' % 1", "'%' % 1", "'%-+6d|' % 3", "'%06.2f' % -1.5",
    "'{} {}'.format(1, 'a')", "'{0}{1}{0}'.format('a', 'b')", "'{a}{b.name}'.format(a=1, b=people[0])",
    "'{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd')", "'{:05d} {:+d} {: d}'.format(1, 2, 3)",
    "'{:,} {:_}'.format(1234567, 1234567)", "'{:.2f} {:10.3f}|'.format(2.675, 3.14159)",
    "'{:x} {:#x} {:X} {:b} {:#b} {:o} {:c}'.format(255, 255, 255, 5, 5, 8, 65)",
    "'{:e} {:E} {:g} {:%}'.format(12345.678, 0.1, 1e20, 0.256)", "'{!r} {!s} {!a}'.format('é', 'é', 'é')",
    "'{{}} {{{}}}'.format(1)", "'{[0]} {[b]}'.format([5], {'b': 6})", "'{:{}}|'.format('a', 5)",
    "'{:>{w}.{p}f}|'.format(3.14159, w=8, p=2)", "'{}'.format()", "'{'.format(1)", "'{:d}'.format('a')",
    "'{:s}'.format(1)", "'{}'.format(none)", "'{}'.format([1, 'a'])", "'{:5}|'.format(true)",
    "'{:.3}|{:5.1}|'.format('abcdef', 'xyz')", "'{:.3}'.format(3.14159)", "'{:.3}'.format(1234567.0)",
    "'{:g}'.format(1.0)", "'{}'.format(1.0)", "'{:08.3f}'.format(-3.14159)", "'{:=+8d}|'.format(5)",
    "'{:<8}|'.format(5)", "'{:,.2f}'.format(1234567.891)", "'{:010,}'.format(1234567)", "'{:n}'.format(5)",
    "'{a}'.format_map({'a': 1})", "'{:_x}'.format(1048576)", "'{:^+9.2e}|'.format(1234.5)",
]

ARITHMETIC = ["+", "-", "*", "/", "//", "%", "**"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
NUMBERS = ["0", "1", "7", "-3", "2.5", "-0.5", "true", "10000000000", "1e3", "0.1"]
OPERANDS = ["none", "seven", "half", "word", "empty_text", "list", "tuple", "dict", "true",
            "undefined", "range", "nested"]

EXPRESSIONS = [
    "1_000", "0x1F", "0b101", "0o17", "1e3", "1.5e-7", "1e16", "123456789012345678", "1e22",
    "12345678901234567890 * 10", "9223372036854775807 + 1", "2 ** 100", "-2 ** 2", "2 ** -1",
    "(2 ** 64) // 3", "7 // -2", "-7 // 2", "-7 % 3", "7 % -3", "7.5 // 2", "-7.5 % 2", "0.1 + 0.2",
    "1 / 3", "2 / 1", "1e300 * 1e10", "round", "big", "big + 1", "-0.0", "1 if true else 2",
    "1 if false", "'a' 'b'", "'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x'] ~ {'a': none}", "not none",
    "1 < 2 < 3", "3 > 2 > 2", "1 == 1.0 == true", "'a' < 'b'", "[1, 2] < [1, 3]", "(1, 2) == [1, 2]",
    "none and 1", "'' or 'x'", "1 and 2 or 3", "not 1 == 2", "[1, 2][0]", "[1, 2][-1]", "[1, 2][9]",
    "'abc'[1]", "'abc'[-1]", "'abc'[1:]", "'abc'[::-1]", "'äöü'[:2]", "[1, 2, 3, 4][::2]",
    "[1, 2, 3][:-1]", "(1, 2, 3)[1:]", "range(10)[2]", "{'a': 1}['a']", "{'a': 1}.a", "{'a': 1}.b",
    "{1: 2}[1]", "{true: 1}[1]", "{'a': 1, 'a': 2}", "{(1, 2): 3} is mapping", "missing", "missing.a",
    "missing['a']", "missing()", "missing is defined", "missing == none", "missing == missing2",
    "missing ~ 'a'", "missing + 'a'", "missing | length", "missing | list", "missing | upper",
    "missing | int", "missing | tojson", "missing | join", "missing in 'abc'", "'a' in missing",
    "missing or 'x'", "not missing", "missing < 1", "-missing", "[missing]", "{'a': missing}",
    "dict.items", "dict.missing", "dict.missing.a", "dict['items']", "dict.f", "dict", "people[0].home.city",
    "people[5]", "people[5].name", "people['a']", "people.a", "word.upper()", "word.nosuch()", "word.upper",
    "1 + 'a'", "'a' + 1", "'a' + none", "'a' * 3", "3 * 'a'", "[1] * 2", "[1] + [2]", "(1,) + (2,)",
    "[1] + (2,)", "'a' - 'b'", "{} + {}", "none + 1", "true + true", "+true", "-true", "'%d' % 1.5",
    "[none, true, 1.0, 'it\\'s', \"a\\\"b\", 'both\\'\"']", "['\\n\\t\\\\', '\\x00\\x1f\\x7f', '\\u00e9\\u200b\\ud7ff']",
    "('a',)", "()", "(1, (2, [3]))", "'\\101\\x41\\u0041\\q'", "\"it's\" | string", "'a\\\nb'",
    "range(3)", "range(1, 9, 3)", "range(5, 0, -2) | list", "range(0) | list", "dict(a=1, b=2)",
    "dict({'a': 1}, b=2)", "dict([['a', 1]])", "namespace(a=1).a", "namespace(a=1)", "'<' | safe + '>'",
    "('<' | e) + '>' ", "'<' | e ~ '>'", "'<' | escape | escape", "'%s' | safe % '<'", "['<' | e]",
    "[1, 2] | map('string') | join('-')", "[1, 2, 3] | select('odd') | map('string') | list",
    "[1, 2] | map('add', 1) | list", "'abc' | nosuch", "1 is nosuch", "none | map('upper') | list",
    "none | select('odd') | list", "none | selectattr('a') | list", "none | sort", "none | list",
    "none | join", "none | length", "none | items", "none | first", "0 | map('upper') | list",
    "([1, 2] | map('string')) is iterable", "([1, 2] | map('string')) | length", "([] | map('string')) and 1",
    "([1, 2] | map('string'))[0]", "([1, 2] | select)|first", "[3, 1] | sort | first", "[1, 2] | last",
    "(dict.items() | list)[0][0]", "dict.keys()[0]", "dict.values() | first", "dict | list", "dict | first",
    "dict | last", "dict | reverse | list", "dict | join('-')", "dict | sort", "dict | dictsort | first",
    "'b' in dict", "'q' in dict", "1 in [1.0]", "[1] in [[1]]", "'' in 'a'", "1 in 'a'", "1 in none", "1 in {1: 2}",
    "people | groupby('age') | map('first') | list", "people | groupby('age') | map(attribute='list') | map('length') | list",
    "(people | groupby('age'))[0].grouper", "(people | groupby('age'))[0].list | length", "people | groupby('age') | first",
    "people | sum(attribute='age')", "people | map(attribute='name') | sort | join(', ')",
    "people | selectattr('age', 'gt', 26) | map(attribute='name') | join", "[{'a': {'b': 1}}] | map(attribute='a.b') | first",
    "['a', 'b'] | join(d=', ')", "'x' | center(5) | length", "'a-b' | title", "\"they're {bill's} (a)\" | title",
    "'ß' | upper", "'İ' | lower", "'ΑΣ' | lower", "'ΑΣ Σ' | lower", "'ŉ' | capitalize", "'ǆ' | title", "'ﬁ' | upper",
    "'１２' | int", "'١٢' | int", "' 1_0 ' | int", "'1__0' | int", "'0x1f' | int(0, 16)", "'0b11' | int(0, 0)",
    "'1e3' | int", "'inf' | float", "'nan' | float", "'1e400' | float", "'-1e-400' | float", "'.5' | float", "'5.' | float",
    "1e400", "2.5 | round", "3.5 | round", "-2.5 | round", "1234.5 | round(-2)", "7 | round", "15 | round(-1)", "25 | round(-1)",
    "0.125 | round(2)", "true | round", "7.9 | int", "-7.9 | int", "1e30 | int", "'9' * 30 | int", "true | int", "[] | int",
    "true is integer", "true is number", "1.0 is integer", "1.0 is float", "none is none", "none is defined",
    "missing is none", "missing is iterable", "missing is sequence", "dict.items() is sequence", "range(2) is sequence",
    "'a' is sequence", "'a' is lower", "'A1' is upper", "'1' is lower", "range is callable", "dict.get is callable",
    "1 is sameas 1.0", "[] is sameas []", "'a' is in ['a']", "'a' is not in ['a']", "4 is divisibleby 2 and true",
    "1 is eq 1 | string", "'upper' is filter", "'nosuch' is filter", "'odd' is test", "3 is not odd", "x is defined and x.y",
    "cycler('a', 'b').next()", "cycler('a').current", "joiner()", "joiner('|')() ~ 'x'", "strftime_now('%Y-%m-%d %H:%M:%S')",
    "strftime_now('%a %A %b %B %d %e %j %y %I %p %U %W %V %G %u %w %C %D %R %T %F %c %x %X %z %Z %%')",
    "strftime_now('%-d %-m %-I %-j %-H')", "raise_exception('no')", "raise_exception(dict.missing)",
    "messages[-1].content", "messages[0]['role'] == 'system'", "messages | length", "messages[1:] | length",
    "messages[::-1] | map(attribute='role') | join", "messages | selectattr('role', 'equalto', 'user') | list | length",
    "messages | map(attribute='content') | list", "messages[2].tool_calls", "messages[2].tool_calls is defined",
    "messages[0].get('x', 'y')", "messages[0].items() | list", "messages[0] | items | list", "messages | tojson(indent=2)",
    "flag", "nothing", "flag | string", "nothing | string", "nothing ~ ''", "flag | tojson", "[flag, nothing]",
    "(1, 2)", "1, 2", "[1, 2,]", "{'a': 1,}", "loop", "self", "caller", "varargs", "kwargs",
]

STATEMENTS = [
    "{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2, 2] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in [1, 2] %}{{ loop.changed(x, 1) }}{{ loop.cycle() }}{% endfor %}",
    "{% for n in tree recursive %}{{ n.name }}{{ loop.depth }}{% if n.children %}({{ loop(n.children) }}){% endif %}{% endfor %}",
    "{% for n in tree recursive %}{{ n.name }}{% else %}-{% endfor %}",
    "{% for x in [1] %}{{ loop([2]) }}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }};{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}",
    "{% for a, b in [[1]] %}{{ a }}{% endfor %}",
    "{% for a, b in ['xy', 'zw'] %}{{ a }}{{ b }}{% endfor %}",
    "{% for k, v in dict.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in dict | items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in dict %}{{ k }}{% endfor %}", "{% for c in 'aé' %}{{ c }}.{% endfor %}",
    "{% for x in none %}x{% endfor %}", "{% for x in 5 %}x{% endfor %}", "{% for x in missing %}x{% else %}e{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x is even %}{{ x }}{{ loop.index }}{{ loop.last }}{% endfor %}",
    "{% for x in [] if x %}{% else %}none{% endfor %}",
    "{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2, 3] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2] %}{% for y in 'ab' %}{{ loop.index }}{{ x }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}", "{% for x in (1, 2) %}{{ x }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i + 10 %}{{ x }};{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% if false %}{% set x = 2 %}{% endif %}{{ x }}", "{% if false %}{% set word = 2 %}{% endif %}{{ word }}",
    "{% for x in [] %}{% else %}{% set y = 5 %}{% endfor %}{{ y }}",
    "{% set y = 1 %}{% for x in [] %}{% else %}{% set y = 5 %}{{ y }}{% endfor %}{{ y }}",
    "{% for x in [1] %}{% set y = x %}{% endfor %}{{ y }}", "{% for x in [1] %}{% endfor %}{{ x }}",
    "{% set x = 9 %}{% for x in [1, 2] %}{{ x }}{% endfor %}{{ x }}",
    "{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a }}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}",
    "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}", "{% with (a, b) = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}", "{% set a = b = 1 %}",
    "{% set a = 1, %}{{ a }}", "{% set a, b = 'xy' %}{{ a }}{{ b }}",
    "{% set x %}text {{ 1 + 1 }}{% endset %}[{{ x }}]", "{% set x | upper %}text{% endset %}{{ x }}",
    "{% set x | replace('t', 'T') | trim %} text {% endset %}{{ x }}",
    "{% set x %}{% set inner = 1 %}{% endset %}{{ inner }}", "{% filter upper %}{% set q = 'a' %}{{ q }}{% endfilter %}{{ q }}",
    "{% filter replace('a', 'b') | upper %}banana{% endfilter %}", "{% filter indent(2) %}a\nb\n{% endfilter %}",
    "{% set ns = namespace(x=0) %}{% for i in [1, 2, 3] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}|", "{% set d = {} %}{% set d.a = 1 %}{{ d }}",
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=5, a=4) }}",
    "{% macro f(a) %}[{{ a }}]{% endmacro %}{{ f() }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}", "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}",
    "{% macro f() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ f() }}", "{% set x = 1 %}{% macro f() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ f() }}",
    "{% macro f() %}{% set z = 1 %}{{ z }}{% endmacro %}{{ f() }}{{ z }}", "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro f() %}({{ caller() }}){% endmacro %}{% call f() %}in{% endcall %}",
    "{% macro f(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) f([1, 2]) %}<{{ x }}>{% endcall %}",
    "{% macro f() %}{{ caller is defined }}{% endmacro %}{{ f() }}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ f('<') | upper }}",
    "{% macro f() %}x{% endmacro %}{{ f.name }}{{ f is callable }}", "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(**{'a': 3, 'b': 4}) }}",
    "{% for x in [1] %}{% macro f() %}{{ x }}{% endmacro %}{{ f() }}{% endfor %}{{ f is defined }}",
    "{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}", "{% if 0 %}a{% elif 2 %}b{% else %}c{% endif %}", "{% if [] %}a{% elif none %}b{% else %}c{% endif %}",
    "{% if missing %}a{% else %}b{% endif %}", "{% if missing.x %}a{% endif %}", "{% if messages[0].tool_calls %}a{% else %}b{% endif %}",
    "{% raw %}{{ x }}{% y %}{# z #}{% endraw %}", "{%- raw -%} {{ x }} {%- endraw -%} y", "{# comment #}a{#- b -#} c", "a {# x\ny #} b",
    "{% generation %}a{% set g = 1 %}{% endgeneration %}{{ g }}", "{% generation %}{{ word }}{% endgeneration %}",
    "{% autoescape false %}{{ '<' }}{% endautoescape %}", "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}",
    "{% set j = joiner(', ') %}{% for x in [1, 2, 3] %}{{ j() }}{{ x }}{% endfor %}", "{% set it = [1, 2, 3] | map('string') %}{{ it | first }}{{ it | join }}{{ it | join }}",
    "{% set it = [1, 2] | select %}{% for x in it %}{{ x }}{% endfor %}{% for x in it %}{{ x }}{% else %}gone{% endfor %}",
    "{% for g in people | groupby('age') %}{{ g.grouper }}:{% for p in g.list %}{{ p.name }},{% endfor %};{% endfor %}",
    "{% for age, l in people | groupby('age') %}{{ age }}={{ l | map(attribute='name') | join('+') }} {% endfor %}",
    "{% for row in range(7) | batch(3, '-') %}{{ row | join }}|{% endfor %}", "{% for col in range(7) | slice(3) %}{{ col }}|{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{{ m['content'] }}{% endfor %}", "{% for m in messages %}{{ m }}{% endfor %}",
    "{{ '{{' }}{{ '%}' }}{{ '}}' }}", "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ 1 }}{{ 2 -}} {{- 3 }}", "{%+ if true %} a{% endif %}",
    "{% break %}", "{% nosuch %}", "{{ 1 +", "{% if %}{% endif %}", "{% for x in %}{% endfor %}", "{% endif %}", "{{ 'a }}", "{# a", "{% raw %}", "{{ }}", "{{ 1 2 }}", "{{ a b }}",
    "{% set true = 1 %}", "{{ loop.index }}", "{% for x in [1, 2] %}{{ loop }}{% endfor %}", "{% block a %}x{% endblock %}", "{% include 'a' %}",
    "{% set m = messages[0] %}{% if m.content is string %}{{ m.content }}{% elif m.content is iterable %}list{% endif %}",
    "{% if (messages | last).role == 'assistant' %}yes{% endif %}", "{% set x = messages | selectattr('role', 'equalto', 'tool') %}{% if x %}some{% else %}none{% endif %}",
    "{% set x = messages | selectattr('role', 'equalto', 'tool') | list %}{% if x %}some{% else %}none{% endif %}",
]

# Pieces that white space around tags is tried with.
EDGES = ["", " ", "\n", "  \n", "\n  ", "\t", "\r\n", "a\n", "\n\n", "x ", " y", "\u00a0", "\x0b"]
TAGS = ["{% if true %}", "{%- if true %}", "{% if true -%}", "{%- if true -%}", "{%+ if true %}", "{% if true +%}"]
ENDS = ["{% endif %}", "{%- endif %}", "{% endif -%}", "{%- endif -%}", "{% endif +%}", "{%+ endif %}"]
PRINTS = ["{{ 1 }}", "{{- 1 }}", "{{ 1 -}}", "{{- 1 -}}", "{# c #}", "{#- c -#}", "{# c -#}", "{%- set q = 1 %}", "{% raw %} r {% endraw %}", "{%- raw -%} r {%- endraw -%}"]


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
    for left, symbol, right in itertools.product(OPERANDS, ARITHMETIC + COMPARISONS + ["~", "and", "or"], OPERANDS):
        yield f"{{{{ ({VALUES[left]}) {symbol} ({VALUES[right]}) }}}}"
    for value in VALUES.values():
        yield f"{{{{ {value} }}}}|{{{{ [{value}] }}}}|{{{{ {value} ~ '' }}}}|{{{{ {{'k': {value}}} }}}}"
        yield f"{{{{ ({value})[0] }}}}|{{{{ ({value})[-1] }}}}|{{{{ ({value})['a'] }}}}"
        yield f"{{{{ ({value})[1:] }}}}|{{{{ ({value})[::-1] }}}}|{{{{ ({value})[:2] }}}}"
        yield f"{{% for x in {value} %}}{{{{ x }}}},{{% else %}}empty{{% endfor %}}"
        yield f"{{% if {value} %}}yes{{% else %}}no{{% endif %}}{{{{ not {value} }}}}"
    for expression in FORMATS + EXPRESSIONS:
        yield f"{{{{ {expression} }}}}"
    yield from STATEMENTS
    draw = random.Random(1)
    for _ in range(1500):
        parts = [draw.choice(EDGES)]
        for _ in range(draw.randint(1, 3)):
            if draw.random() < 0.5:
                parts += [draw.choice(TAGS), draw.choice(EDGES), draw.choice(PRINTS), draw.choice(EDGES), draw.choice(ENDS)]
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
