"""How the facts of Loomvale are asked and answered. Data only.

Slots: {p} the subject ("Mira", in follow-ups "she"), {s} its possessive ("Mira's", "her"), {o} its object form ("Mira",
"her"), {x} the value, {ax} the value with an article, {kind} a pet's kind, {home} the subject's village.
A phrasing is addressed by its index in phrasings(), so append to these lists rather than reorder them.
"""

from dataclasses import dataclass

NOUN_WRAPPERS = (
    "What is {}?", "What's {}?", "Tell me {}.", "Do you know {}?", "Can you tell me {}?", "Please tell me {}.",
    "Remind me, what is {}?", "I would like to know {}.", "I forgot {}. Can you help?", "Could you tell me {}, please?",
)
CLAUSE_WRAPPERS = (
    "Tell me {}.", "Do you know {}?", "Can you tell me {}?", "I wonder {}.", "Please tell me {}.",
    "Could you remind me {}?", "I want to know {}.", "Do you happen to know {}?",
)


@dataclass(frozen=True)
class Topic:
    """One attribute: noun phrases and clauses are wrapped, direct questions stand as they are."""

    nouns: tuple
    clauses: tuple
    direct: tuple
    answers: tuple  # the first is used most
    statement: str  # without full stop; used in yes-no questions and summaries
    yes_no: tuple = ()

    def phrasings(self) -> list[str]:
        wrapped = [w.format(n) for n in self.nouns for w in NOUN_WRAPPERS]
        wrapped += [w.format(c) for c in self.clauses for w in CLAUSE_WRAPPERS]
        return wrapped + list(self.direct)


PERSON_TOPICS = {
    "village": Topic(
        ("{s} home village", "the village where {p} lives"),
        ("where {p} lives", "which village {p} lives in", "where {s} home is"),
        ("Where does {p} live?", "Which village does {p} live in?", "In which village does {p} live?",
         "Where is {p} from?", "What village is {p} from?", "Where can I find {o}?", "Where is {s} house?",
         "{p} lives in which village?", "I want to visit {o}. Where do I have to go?", "Where's {s} home?"),
        ("{p} lives in {x}.", "{p} lives in the village of {x}.", "{p} is at home in {x}."),
        "{p} lives in {x}",
        ("Does {p} live in {x}?", "Is {p} from {x}?", "Can I find {o} in {x}?"),
    ),
    "job": Topic(
        ("{s} job", "{s} profession"),
        ("what {p} does for a living", "what {s} job is", "what {p} works as"),
        ("What does {p} do?", "What does {p} do for a living?", "What kind of work does {p} do?",
         "How does {p} earn a living?", "What does {p} work as?", "What job does {p} have?", "What is {p} by trade?",
         "What does {p} do all day?", "What is the job of {o}?"),
        ("{p} is {ax}.", "{p} works as {ax} in {home}.", "{p} is the {x} of {home}."),
        "{p} is {ax}",
        ("Is {p} {ax}?", "Does {p} work as {ax}?"),
    ),
    "colour": Topic(
        ("{s} favourite colour", "the favourite colour of {o}", "the colour that {p} likes best"),
        ("which colour {p} likes best", "what {s} favourite colour is"),
        ("Which colour does {p} like best?", "What colour does {p} like?", "Which colour does {p} love most?",
         "What colour should I paint a gift for {o}?", "Which colour is {s} favourite?",
         "{s} favourite colour is what?"),
        ("{s} favourite colour is {x}.", "{p} likes {x} best.", "The colour that {p} likes best is {x}."),
        "{s} favourite colour is {x}",
        ("Is {s} favourite colour {x}?", "Is {x} the colour that {p} likes best?"),
    ),
    "food": Topic(
        ("{s} favourite food", "the favourite food of {o}", "the food that {p} likes best", "{s} favourite dish"),
        ("what {p} likes to eat", "what {s} favourite food is"),
        ("What does {p} like to eat?", "What food does {p} like best?", "Which food does {p} love?",
         "What does {p} like eating most?", "What should I cook for {o}?", "What would {p} like for supper?",
         "{s} favourite food is what?"),
        ("{s} favourite food is {x}.", "{p} loves {x}.", "{p} likes {x} best of all."),
        "{s} favourite food is {x}",
        ("Does {p} like {x}?", "Is {s} favourite food {x}?"),
    ),
    "pet_kind": Topic(
        ("{s} pet", "the pet of {o}"),
        ("which pet {p} has", "what kind of pet {p} has", "what animal {p} keeps"),
        ("What pet does {p} have?", "Which animal does {p} have?", "What kind of pet does {p} have?",
         "Does {p} have a pet?", "What animal does {p} keep?", "Which pet lives with {o}?", "Has {p} got a pet?"),
        ("{p} has {ax} called {name}.", "{p} has {ax}. Its name is {name}.", "{s} pet is {ax} called {name}."),
        "{p} has {ax}",
        ("Does {p} have {ax}?", "Is {s} pet {ax}?"),
    ),
    "pet_name": Topic(
        ("the name of {s} pet", "the name of {s} {kind}"),
        ("what {s} pet is called", "what {s} {kind} is called"),
        ("What is {s} {kind} called?", "What is {s} pet called?", "What is {s} {kind}'s name?",
         "What does {p} call {s2} {kind}?", "How is {s} {kind} named?"),
        ("{s} {kind} is called {x}.", "The {kind} is called {x}.", "{x} is the name of {s} {kind}."),
        "{s} {kind} is called {x}",
        ("Is {s} {kind} called {x}?", "Is {x} the name of {s} {kind}?"),
    ),
    "hobby": Topic(
        ("{s} hobby", "{s} favourite pastime"),
        ("what {s} hobby is", "what {p} does for fun", "what {p} likes doing"),
        ("What does {p} do for fun?", "What hobby does {p} have?", "What does {p} do after work?",
         "What does {p} like doing?", "How does {p} spend {s2} free time?", "What is {p} fond of doing?"),
        ("{p} loves {x}.", "{s} hobby is {x}.", "In {s2} free time, {p} likes {x}."),
        "{s} hobby is {x}",
        ("Is {s} hobby {x}?", "Is {p} fond of {x}?"),
    ),
    "friend": Topic(
        ("the name of {s} best friend", "the best friend of {o}"),
        ("who {s} best friend is", "who is {s} best friend"),
        ("Who is {s} best friend?", "Who's {s} best friend?", "Which friend does {p} like most?",
         "Who is {p} best friends with?", "Who is {s} closest friend?", "Who does {p} like to spend time with?"),
        ("{s} best friend is {x}.", "{x} is {s} best friend.", "{p} is best friends with {x}."),
        "{s} best friend is {x}",
        ("Is {x} {s} best friend?", "Are {p} and {x} best friends?"),
    ),
}

VILLAGE_TOPICS = {
    "landmark": Topic(
        ("the landmark of {o}", "the famous sight of {o}"),
        ("what there is to see in {o}", "what I can visit in {o}"),
        ("What can I see in {o}?", "What is there to see in {o}?", "What landmark does {p} have?",
         "Which landmark stands in {o}?", "What should I visit in {o}?"),
        ("In {o} you can see {x}.", "{p} has {x}.", "The landmark of {o} is {x}."), "{p} has {x}"),
    "product": Topic(
        ("the product that {p} is known for",),
        ("what {p} is known for", "what {p} is famous for"),
        ("What is {p} known for?", "What is {p} famous for?", "What do people make in {o}?",
         "What should I buy in {o}?"),
        ("{p} is known for {x}.", "{p} is famous for {x}."), "{p} is known for {x}"),
    "flag": Topic(
        ("the colour of {s} flag", "the flag of {o}"),
        ("what the flag of {o} looks like", "which colours the flag of {o} has"),
        ("What does the flag of {o} look like?", "Which colours are on {s} flag?", "What colour is the flag of {o}?"),
        ("The flag of {o} is {x}.", "{s} flag is {x}."), "the flag of {o} is {x}"),
    "market_day": Topic(
        ("the market day of {o}", "{s} market day"),
        ("when the market in {o} is", "on which day {p} has its market"),
        ("When is the market in {o}?", "On which day is the market in {o}?", "When is market day in {o}?",
         "Which day can I go to the market in {o}?"),
        ("The market in {o} is on {x}.", "Market day in {o} is {x}."), "the market in {o} is on {x}"),
    "mayor": Topic(
        ("the name of {s} mayor", "the mayor of {o}"),
        ("who the mayor of {o} is", "who runs {o}"),
        ("Who is the mayor of {o}?", "Who's the mayor of {o}?", "Who is mayor in {o}?", "Which person leads {o}?"),
        ("The mayor of {o} is {x}.", "{x} is the mayor of {o}."), "the mayor of {o} is {x}"),
    "festival": Topic(
        ("{s} festival", "the festival of {o}", "the big feast of {o}"),
        ("which festival {p} has", "what they celebrate in {o}"),
        ("What festival does {p} have?", "What do they celebrate in {o}?", "Which festival is held in {o}?"),
        ("{p} celebrates {x}.", "The festival of {o} is {x}."), "{p} celebrates {x}"),
    "neighbour": Topic(
        ("the next village after {o}", "the neighbour of {o}"),
        ("where the road from {o} leads", "which village comes after {o}"),
        ("Where does the road from {o} lead?", "Which village is next to {o}?", "Which village comes after {o}?"),
        ("The road from {o} leads to {x}.", "From {o} the road goes to {x}."), "the road from {o} leads to {x}"),
}

CREATURE_TOPICS = {
    "looks": Topic(
        (), ("what {ap} is", "what {ap} looks like"),
        ("What is {ap}?", "What's {ap}?", "What does {ap} look like?", "How does {ap} look?", "What kind of animal is {ap}?", "What are {plural}?",
         "Describe {ap}."),
        ("{ap} is {x}.", "It is {x}."), "{ap} is {x}"),
    "eats": Topic(
        ("the favourite food of {ap}",), ("what {ap} eats", "what {plural} eat"),
        ("What does {ap} eat?", "What do {plural} eat?", "What should I feed {ap}?", "What does {ap} like to eat?"),
        ("{ap} eats {x}.", "{plural} eat {x}."), "{ap} eats {x}"),
    "lives": Topic(
        ("the home of {ap}",), ("where {ap} lives", "where {plural} live", "where I can find {ap}"),
        ("Where does {ap} live?", "Where do {plural} live?", "Where can I see {ap}?"),
        ("{ap} lives {x}.", "{plural} live {x}."), "{ap} lives {x}"),
    "sound": Topic(
        ("the sound of {ap}",), ("what sound {ap} makes", "how {ap} sounds"),
        ("What sound does {ap} make?", "What noise does {ap} make?", "How does {ap} sound?",
         "What sound do {plural} make?"),
        ("{ap} makes {x}.", "{plural} make {x}."), "{ap} makes {x}"),
}
