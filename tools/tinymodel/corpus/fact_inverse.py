"""Facts of Loomvale asked backwards: a value is given, the people, village or creature that have it are wanted."""

from . import world
from .facts import respell
from .split import held_out
from .text import a, capital, join_and

# group -> (phrasings, replies). {x} is the value, {ax} with article, {who} the joined names; plural verbs use {s}: "" or
# "s" for one name.
_GROUPS = {
    "village": (
        ("Who lives in {x}?", "Which people live in {x}?", "Who are the people of {x}?", "Tell me who lives in {x}.",
         "Name the people who live in {x}.", "Who can I meet in {x}?", "Who is at home in {x}?", "Who is from {x}?",
         "Do you know who lives in {x}?", "Which people are from {x}?", "List the people of {x}."),
        ("{who} live in {x}.",)),
    "job": (
        ("Who works as {ax}?", "Who is {ax}?", "Which people work as {ax}?", "I need {ax}. Who can help me?",
         "Do you know {ax}?", "Is there {ax} in Loomvale?", "Where can I find {ax}?", "I am looking for {ax}.",
         "Tell me who works as {ax}.", "Who earns a living as {ax}?", "Can you name {ax}?"),
        ("{place} work as {x}s.",)),
    "colour": (
        ("Whose favourite colour is {x}?", "Who likes {x} best?", "Who likes the colour {x}?", "Who loves {x}?",
         "Which people like the colour {x} best?", "Tell me who likes the colour {x}.", "Who is fond of the colour {x}?",
         "For whom is {x} the best colour?", "Do you know whose favourite colour is {x}?"),
        ("{x} is the favourite colour of {who}.",)),
    "food": (
        ("Who likes {x}?", "Whose favourite food is {x}?", "Who loves {x}?", "Who likes to eat {x}?", "Who eats {x}?",
         "Which people like {x} best?", "I made {x}. Who would like it?", "Who would be happy about {x}?",
         "Do you know who likes {x}?", "Tell me whose favourite food is {x}."),
        ("{x} is the favourite food of {who}.",)),
    "hobby": (
        ("Who likes {x}?", "Whose hobby is {x}?", "Who loves {x}?", "Who is fond of {x}?", "Which people like {x}?",
         "Who spends the evening {x}?", "Tell me who likes {x}.", "I like {x}. Who likes it too?",
         "Do you know whose hobby is {x}?", "Who could join me in {x}?"),
        ("{x} is the hobby of {who}.",)),
    "pet_kind": (
        ("Who has {ax}?", "Who owns {ax}?", "Which people have {ax}?", "Whose pet is {ax}?", "Who keeps {ax}?",
         "Do you know somebody with {ax}?", "Tell me who has {ax}.", "Who has {ax} as a pet?", "Name the people with {ax}."),
        ("{who} have {ax}.",)),
    "pet_name": (
        ("Who is {x}?", "Whose pet is {x}?", "Who owns {x}?", "What kind of animal is {x}?", "What animal is {x}?",
         "Who has a pet called {x}?", "Who does {x} belong to?", "Which person owns {x}?", "Do you know {x}?",
         "Tell me about {x}.", "Whose animal is {x}?", "Where does {x} live?"),
        ("{x} is the {kind} of {who} in {home}.",)),
    "job in village": (
        ("Who is the {job} of {x}?", "Who is the {job} in {x}?", "Who works as {ajob} in {x}?", "Who's the {job} of {x}?",
         "What is the name of the {job} in {x}?", "What is the {job} of {x} called?", "Do you know the {job} of {x}?",
         "Tell me the name of the {job} of {x}.", "I am looking for the {job} of {x}.", "Can you name the {job} of {x}?",
         "Which person is the {job} of {x}?", "Is there {ajob} in {x}?"),
        ("{who} is the {job} of {x}.",)),
    "landmark": (
        ("Where is {x}?", "Which village has {x}?", "Where can I see {x}?", "In which village is {x}?",
         "Where does {x} stand?", "Where do I find {x}?"),
        ("You can see {x} in {who}.",)),
    "product": (
        ("Which village is known for {x}?", "Which village is famous for {x}?", "What place is known for {x}?",
         "Where do I go if I want the village known for {x}?", "Tell me which village is known for {x}."),
        ("{who} is known for {x}.",)),
    "flag": (
        ("Which village has a {x} flag?", "Whose flag is {x}?", "Which flag is {x}?", "Where do I see a {x} flag?"),
        ("The flag of {who} is {x}.",)),
    "market_day": (
        ("Where is the market on {x}?", "Which market is on {x}?", "Which village has its market on {x}?",
         "Is there a market on {x}?", "What market can I visit on {x}?"),
        ("On {x} the market is in {who}.",)),
    "festival": (
        ("Where is {x}?", "Which village celebrates {x}?", "Where can I see {x}?", "Who celebrates {x}?",
         "Where is {x} held?"),
        ("{who} celebrates {x}.",)),
    "eats": (
        ("Which animal eats {x}?", "What animal eats {x}?", "Who eats {x} in the wild?", "Which creature likes {x}?"),
        ("The {who} eats {x}.",)),
    "sound": (
        ("Which animal makes {x}?", "What animal makes {x}?", "I heard {x}. What was that?",
         "Which creature makes {x}?"),
        ("The {who} makes {x}.",)),
}


def _entries():
    """[(group, value, extra slots, names)] for everything that can be asked backwards."""
    out = []
    for group in ("village", "job", "colour", "food", "hobby", "pet_kind"):
        for value in world.values_of(group):
            out.append((group, value, {}, world.people_with(group, value)))
    for p in world.PEOPLE:
        out.append(("pet_name", p.pet_name, {"kind": p.pet_kind, "home": p.village}, [p.name]))
        out.append(("job in village", p.village, {"job": p.job, "ajob": a(p.job)}, [p.name]))
    for group in ("landmark", "product", "flag", "market_day", "festival"):
        for value in dict.fromkeys(getattr(v, group) for v in world.VILLAGES):
            out.append((group, value, {}, [v.name for v in world.VILLAGES if getattr(v, group) == value]))
    for group in ("eats", "sound"):
        out += [(group, getattr(c, group), {}, [c.name]) for c in world.CREATURES]
    return out


ENTRIES = _entries()


def _render(entry, index):
    group, value, extra, names = entry
    questions, replies = _GROUPS[group]
    place = join_and(f"{n} in {world.PERSON[n].village}" for n in names) if group == "job" else ""
    fill = {"x": value, "ax": a(value), "who": join_and(names), "place": place} | extra
    return capital(questions[index].format(**fill)), capital(replies[0].format(**fill))


def _key(entry, index):
    group, value, extra, _ = entry
    return ("inverse", group, value, extra.get("job", ""), index)


def turn(talk) -> None:
    rng = talk.rng
    while True:
        entry = rng.choice(ENTRIES)
        index = rng.randrange(len(_GROUPS[entry[0]][0]))
        if not held_out(*_key(entry, index)):
            break
    asked, reply = _render(entry, index)
    one = [world.PERSON[n] for n in entry[3] if n in world.PERSON]
    talk.say(respell(rng, asked), reply, "fact" if len(one) == 1 else "inverse")
    if len(one) == 1:
        talk.fact = ("person", one[0], "")


def held_out_cases(rng, count: int) -> list[dict]:
    """Backward questions never seen in this combination; every right name and no other must be in the reply."""
    pool = [(e, i) for e in ENTRIES for i in range(len(_GROUPS[e[0]][0])) if held_out(*_key(e, i))]
    everyone = list(world.PERSON) + list(world.VILLAGE) + [c.name for c in world.CREATURES]
    cases = []
    for entry, index in rng.sample(pool, min(count, len(pool))):
        asked, reply = _render(entry, index)
        avoid = [n for n in everyone if n not in reply]
        cases.append({"messages": [["user", asked]], "want": entry[3], "avoid": avoid})
    return cases
