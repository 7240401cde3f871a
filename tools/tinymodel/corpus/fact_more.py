"""Longer answers about Loomvale: portraits of people, places and creatures, and questions that join two facts."""

from . import world
from .facts import respell, statement
from .portraits import portrait
from .split import held_out
from .text import a, capital, join_and

_ABOUT = (
    "Tell me about {}.", "Who is {}?", "What do you know about {}?", "Describe {}.", "Can you tell me about {}?",
    "Tell me something about {}.", "What can you tell me about {}?", "Do you know {}?", "I want to know more about {}.",
    "Have you heard of {}?",
)
_ABOUT_THING = ("What is {}?", *(q for q in _ABOUT if not q.startswith("Who")))


def about_turn(talk) -> None:
    rng = talk.rng
    kind = rng.choices(("person", "village", "creature"), (6, 2, 2))[0]
    while True:
        if kind == "person":
            subject, forms = rng.choice(world.PEOPLE), _ABOUT
        else:
            subject, forms = rng.choice(world.VILLAGES if kind == "village" else world.CREATURES), _ABOUT_THING
        index = rng.randrange(len(forms))
        if not held_out("about", subject.name, index):
            break
    name = a(subject.name) if kind == "creature" else subject.name
    talk.say(respell(rng, forms[index].format(name)), portrait(rng, kind, subject), "fact")
    talk.fact = (kind, subject, "about")


_FRIEND_ATTRIBUTES = ("village", "job", "colour", "food", "pet_kind", "hobby")
_NOUNS = {"village": "home village", "job": "job", "colour": "favourite colour", "food": "favourite food",
          "pet_kind": "pet", "hobby": "hobby"}


def _friend_hop(p, attribute, index):
    q = ("What is the {n} of {s} best friend?", "Do you know the {n} of {s} best friend?",
         "{s} best friend has which {n}?", "Tell me the {n} of {s} best friend.")[index]
    friend = world.PERSON[p.friend]
    reply = f"{p.name}'s best friend is {p.friend}, and {statement('person', friend, attribute)}."
    return capital(q.format(n=_NOUNS[attribute], s=p.name + "'s")), reply, getattr(friend, attribute)


def _mayor_hop(p, index):
    q = ("Who is the mayor of {s} village?", "Who is the mayor where {p} lives?", "What is {s} mayor called?",
         "Who runs the village where {p} lives?")[index]
    mayor = world.VILLAGE[p.village].mayor
    return (q.format(p=p.name, s=p.name + "'s"),
            f"{p.name} lives in {p.village}, and the mayor of {p.village} is {mayor}.", mayor)


def _same(p, o, attribute, index):
    q = {"village": ("Do {p} and {o} live in the same village?", "Are {p} and {o} neighbours?"),
         "job": ("Do {p} and {o} have the same job?", "Do {p} and {o} do the same work?"),
         "colour": ("Do {p} and {o} like the same colour?", "Do {p} and {o} share a favourite colour?"),
         "hobby": ("Do {p} and {o} have the same hobby?", "Do {p} and {o} share a hobby?")}[attribute][index]
    both = f"{statement('person', p, attribute)} and {statement('person', o, attribute)}"
    same = getattr(p, attribute) == getattr(o, attribute)
    return (q.format(p=p.name, o=o.name), capital(both) + (", so yes." if same else ", so no."),
            "yes" if same else "no")


def _hop(rng, wanted_held_out: bool):
    while True:
        p, index, kind = rng.choice(world.PEOPLE), rng.randrange(4), rng.randrange(3)
        if kind == 0:
            attribute = rng.choice(_FRIEND_ATTRIBUTES)
            made, k = (p, attribute, index), ("friend", p.name, attribute, index)
        elif kind == 1:
            made, k = (p, index), ("mayor", p.name, index)
        else:
            attribute = rng.choice(("village", "job", "colour", "hobby"))
            partners = [o for o in world.PEOPLE if o is not p]
            if rng.random() < 0.4:
                partners = [o for o in partners if getattr(o, attribute) == getattr(p, attribute)] or partners
            o = rng.choice(partners)
            made, k = (p, o, attribute, index % 2), ("same", *sorted((p.name, o.name)), attribute)
        if held_out("hop", *k) == wanted_held_out:
            return (_friend_hop, _mayor_hop, _same)[kind](*made)


def hop_turn(talk) -> None:
    asked, reply, _ = _hop(talk.rng, False)
    talk.say(respell(talk.rng, asked), reply, "inverse")


def hop_cases(rng, count: int) -> list[dict]:
    out = []
    for _ in range(count):
        asked, reply, want = _hop(rng, True)
        out.append({"messages": [["user", asked]], "want": [want], "avoid": []})
    return out


def overview_turn(talk) -> None:
    """Questions about Loomvale as a whole."""
    villages, rng = join_and(world.VILLAGE), talk.rng
    creatures = join_and(c.name for c in world.CREATURES)
    asked, reply = rng.choice((
        (("What is Loomvale?", "Tell me about Loomvale.", "Where is Loomvale?", "What world do you know?"),
         "Loomvale is a little invented valley with ten villages. I know its people, its places and its animals by "
         "heart. Ask me about Mira the clockmaker, for example, or about Shuttle Bay."),
        (("Which villages are there?", "Name the villages of Loomvale.", "What villages do you know?",
          "List all villages.", "How many villages are there?", "Which places do you know?"),
         f"There are ten villages in Loomvale: {villages}."),
        (("Which animals live in Loomvale?", "What creatures do you know?", "Which wild animals are there?",
          "What animals do you know?", "List the creatures of Loomvale."),
         f"In Loomvale there are twelve wild creatures: {creatures}."),
        (("Who lives in Loomvale?", "Which people do you know?", "Who do you know?", "How many people do you know?",
          "Name some people of Loomvale.", "Tell me about the people in Loomvale."),
         "I know forty-eight people in Loomvale. Ask me who lives in a village, for example: who lives in "
         f"{rng.choice(world.VILLAGES).name}?"),
    ))
    talk.say(rng.choice(asked), reply, "overview")
