"""Writes what Jinja2, as transformers sets it up, renders: jinja_templates.json beside the file
templates.json that templates.mjs wrote, whose conversations it takes.
  /usr/bin/python3 tools/text_oracle/jinja_templates.py [FOLDER]
"""
import calendar
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import jinja_environment  # noqa: E402
import jinja_snippets  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/text-oracle")
    contexts = json.loads((folder / "templates.json").read_text(encoding="utf8"))["contexts"]
    sources = dict(own_templates())
    data = pathlib.Path(os.environ.get("WEFT_DATA", ROOT / "build/test-data")) / "templates"
    for path in sorted(data.glob("*.jinja")) if data.is_dir() else []:
        sources[path.name] = path.read_bytes().decode()
    templates = {
        name: {
            # transformers always hands on tools and documents.
            key: jinja_environment.render(source, {"tools": None, "documents": None, **context})
            for key, context in contexts.items()
        }
        for name, source in sources.items()
    }
    snippets = [
        {"source": source, **jinja_environment.render(source, jinja_snippets.CONTEXT)}
        for source in dict.fromkeys(jinja_snippets.generated())
    ]
    (folder / "jinja_templates.json").write_text(
        json.dumps(
            {
                "local_now_s": calendar.timegm(jinja_environment.NOW.timetuple()),
                "contexts": contexts,
                "sources": sources,
                "templates": templates,
                "snippet_context": jinja_snippets.CONTEXT,
                "snippets": snippets,
            }
        )
    )
    print(f"{len(sources)} templates x {len(contexts)} conversations, {len(snippets)} snippets")


def own_templates():
    """The repository's own templates, in the forms that models have."""
    folder = ROOT / "tests/reported/templates"
    for path in sorted(folder.glob("*.jinja")):
        yield path.name, path.read_bytes().decode()


main()
