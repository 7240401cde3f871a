"""Short stories: a request, then a story that really is about what was asked for."""

from . import world
from .names import invented, stranger
from .split import held_out
from .story_plots import PLOTS
from .story_words import ANIMALS, ENDINGS, FIXED_PRONOUN, ITEM_ADJECTIVES, ITEMS, NAMES, PEOPLE_HEROES, PLACES, TRAITS
from .text import a, capital, realise

_OPENINGS = (
    "Once upon a time there was {ahero} called {H}, who lived {inplace}.",
    "There once was {ahero} named {H}. {He} lived {inplace}.",
    "{Inplace} lived {ahero} whose name was {H}.",
    "Long ago, {inplace}, there lived {ahero} called {H}.",
)
_TRAIT = (
    "{H} was very {trait}.", "Everybody knew that {H} was {trait}.", "{He} was {trait} and had a good heart.",
    "{H} was a {trait} {hero}, and {he} liked to watch the clouds.",
)
_REQUESTS = (
    "Tell me a story about {x}.", "Write a story about {x}.", "Can you tell me a story about {x}?", "A story about {x}, please.",
    "I would like a story about {x}.", "Tell me a short story about {x}.", "Please tell me a story about {x}.", "Story about {x}",
    "Write a short story about {x}.", "Make up a story about {x}.", "Do you know a story about {x}?", "Could you write a tale about {x}?",
    "Tell me a bedtime story about {x}.", "I want to hear a story about {x}.",
)
_PLAIN = (
    "Tell me a story.", "Tell me a short story.", "Write a story.", "Can you tell me a story?", "A story, please.", "Do you know a story?",
    "I want a story.", "Tell me a bedtime story.", "Please tell me a story.", "Read me a story.", "Story please", "Make up a story.",
)


def _pronouns(pronoun: str, prefix: str = "") -> dict:
    he, his, him = ("she", "her", "her") if pronoun == "she" else ("he", "his", "him")
    out = {"he": he, "his": his, "him": him, "himself": him + "self"}
    return {prefix + k: v for k, v in out.items()} | {(prefix + k).capitalize(): capital(v) for k, v in out.items()}


def cast(rng, hero=None, item=None, friend=None, place=None) -> dict:
    """All slots of one story; what is not given is drawn."""
    everyone = ANIMALS + PEOPLE_HEROES
    hero = hero or rng.choice(everyone)
    friend = friend or rng.choice([n for n in ANIMALS if n != hero])
    item = item or rng.choice(ITEMS)
    inplace, the_place, spots = PLACES[place or rng.choice(list(PLACES))]
    spot1, spot2 = rng.sample(spots, 2)
    name, friend_name = rng.sample(NAMES, 2)
    adjective = rng.choice(("little ", "young ", "small ", "", ""))
    described = rng.choice(ITEM_ADJECTIVES) + " " + item
    slots = {
        "H": name, "hero": hero, "ahero": a(adjective + hero), "F": friend_name, "friend": friend, "item": item,
        "aitem": a(described), "inplace": inplace, "Inplace": capital(inplace), "place": the_place, "spot1": spot1,
        "spot2": spot2, "trait": rng.choice(TRAITS),
    }
    slots |= _pronouns(FIXED_PRONOUN.get(hero) or rng.choice(("she", "he")))
    return slots | _pronouns(FIXED_PRONOUN.get(friend) or rng.choice(("she", "he")), "f")


def tell(rng, slots: dict, plot: str | None = None, opening: str | None = None) -> str:
    """The story as one text of two or three paragraphs."""
    beats = PLOTS[plot or rng.choice(list(PLOTS))][1]
    first = [(opening or rng.choice(_OPENINGS)).format(**slots)]
    if rng.random() < 0.7:
        first.append(rng.choice(_TRAIT).format(**slots))
    body = [realise(rng, beat.format(**slots)) for beat in beats]
    if rng.random() < 0.85:
        body.append(rng.choice(ENDINGS).format(H=slots["H"], F=slots["F"], place=slots["place"], in_place=slots["inplace"]))
    cut = len(body) // 2
    paragraphs = [" ".join(first + body[:1]), " ".join(body[1:cut + 1]), " ".join(body[cut + 1:])]
    return "\n\n".join(capital(p) for p in paragraphs)


def _asked(rng):
    """(what the user asks for, slots, plot, opening): the request decides hero, item, friend, place or theme."""
    kind = rng.choices(("hero", "hero and item", "two heroes", "item", "place", "theme", "person", "name", "new", "called", "trait"),
                       (18, 26, 12, 10, 6, 8, 6, 5, 9, 7, 5))[0]
    hero, item, friend = rng.choice(ANIMALS + PEOPLE_HEROES), rng.choice(ITEMS), rng.choice(ANIMALS)
    if kind == "hero":
        return rng.choice((a(hero), a(hero), hero + "s" if hero[-1] not in "yshf" else a(hero))), cast(rng, hero), None, None
    if kind == "hero and item":
        return f"{a(hero)} and {a(item)}", cast(rng, hero, item), None, None
    if kind == "two heroes" and friend != hero:
        return f"{a(hero)} and {a(friend)}", cast(rng, hero, friend=friend), None, None
    if kind == "called":
        name = stranger(rng)
        return rng.choice((f"{a(hero)} called {name}", f"{a(hero)} named {name}", f"my {hero} {name}")), cast(rng, hero) | {"H": name}, None, None
    if kind == "trait":
        trait = rng.choice(TRAITS)
        return f"{a(trait + ' ' + hero)}", cast(rng, hero) | {"trait": trait, "ahero": a(f"{trait} {hero}")}, None, None
    if kind == "place":
        place = rng.choice(list(PLACES))
        asked = rng.choice((f"{a(hero)} {PLACES[place][0]}", PLACES[place][1]))
        return asked, cast(rng, hero if asked != PLACES[place][1] else None, place=place), None, None
    if kind == "theme":
        plot = rng.choice(list(PLOTS))
        return rng.choice(PLOTS[plot][0]), cast(rng), plot, None
    if kind == "person":
        p = rng.choice(world.PEOPLE)
        slots = cast(rng, p.job) | _pronouns(p.pronoun)
        slots |= {"H": p.name, "inplace": f"in {p.village}", "place": p.village, "Inplace": f"In {p.village}"}
        return p.name, slots, None, "In {place} lived {H} the {hero}, who loved " + p.food + "."
    if kind == "name":
        name = stranger(rng)
        return name, cast(rng, rng.choice(("child", "girl", "boy"))) | {"H": name}, None, None
    if kind == "new":  # nouns that no list holds: the story must copy them
        word = invented(rng).lower()
        if rng.random() < 0.5:
            return a(word), cast(rng, word), None, None
        return f"{a(hero)} and {a(word)}", cast(rng, hero, word), None, None
    return a(item), cast(rng, None, item), None, None


def turn(talk) -> None:
    rng = talk.rng
    if rng.random() < 0.2:
        again = talk.last == "story" and rng.random() < 0.6
        request = rng.choice(("Another one, please.", "Tell me another one.", "One more story, please.", "Another story!", "Another one!") if again else _PLAIN)
        talk.say(request, tell(rng, cast(rng)), "story")
        return
    while True:
        about, slots, plot, opening = _asked(rng)
        if not held_out("story", about, percent=5):
            break
    talk.say(rng.choice(_REQUESTS).format(x=about), tell(rng, slots, plot, opening), "story", typos=False)


def held_out_cases(rng, count: int) -> list[dict]:
    """Pairs such as "a fox and a kite" that training never asked for; both words must be in the story."""
    cases = []
    while len(cases) < count:
        hero, item = rng.choice(ANIMALS + PEOPLE_HEROES), rng.choice(ITEMS)
        about = f"{a(hero)} and {a(item)}"
        if held_out("story", about, percent=5):
            cases.append({"messages": [["user", rng.choice(_REQUESTS).format(x=about)]], "want": [hero, item],
                          "avoid": [], "words": [80, 260]})
    return cases
