"""Loomvale: the closed little world that the model knows by heart. Data only; how it is asked is in facts*.py.

48 people with nine attributes, ten villages with seven, twelve invented creatures with four: 550 facts.
"""

from dataclasses import dataclass

COUNTRY = "Loomvale"


@dataclass(frozen=True)
class Person:
    name: str
    pronoun: str  # "she" or "he"
    village: str
    job: str
    colour: str
    food: str
    pet_kind: str
    pet_name: str
    hobby: str
    friend: str

    @property
    def possessive(self) -> str:
        return "her" if self.pronoun == "she" else "his"

    @property
    def objective(self) -> str:
        return "her" if self.pronoun == "she" else "him"


@dataclass(frozen=True)
class Village:
    name: str
    landmark: str
    product: str  # what it is known for
    flag: str
    market_day: str
    mayor: str
    festival: str
    neighbour: str  # where the road from here leads


@dataclass(frozen=True)
class Creature:
    name: str
    looks: str
    eats: str
    lives: str  # with preposition
    sound: str


# name | pronoun | village | job | colour | food | pet | its name | hobby | best friend
_PEOPLE = """
Mira|she|Spindle Green|clockmaker|orange|walnut bread|parrot|Whistle|collecting stones|Pella
Tomas|he|Woolmere|miller|silver|plum jam|rabbit|Noodle|playing the drums|Juniper
Odo|he|Indigo Point|shepherd|white|onion pie|cat|Ginger|playing chess|Kester
Pella|she|Flaxford|baker|purple|noodle soup|pony|Velvet|swimming|Mira
Bram|he|Madder Cross|fiddler|green|blueberry pancakes|frog|Domino|dancing|Isolde
Suri|she|Bobbin Hill|carpenter|yellow|potato cakes|hedgehog|Button|singing|Bettina
Nils|he|Woolmere|beekeeper|gold|cheese toast|rabbit|Barnaby|climbing hills|Edda
Wanda|she|Bobbin Hill|painter|red|buttered corn|mouse|Tinker|building model boats|Nettie
Ilka|she|Shuttle Bay|letter carrier|white|lemon cake|duck|Fidget|playing the flute|Linnet
Jory|he|Shuttle Bay|shepherd|green|apple tart|frog|Sprout|singing|Dagny
Tamsin|she|Selvedge|stargazer|turquoise|buttered corn|goat|Pepper|pressing flowers|Yorick
Fenn|he|Selvedge|candle maker|silver|raspberry jelly|tortoise|Rumble|telling riddles|Xanthe
Greta|she|Flaxford|fisher|turquoise|barley bread|owl|Marble|watching birds|Rosalind
Hob|he|Woolmere|doctor|green|mushroom pie|donkey|Bumble|singing|Willem
Isolde|she|Thistledown|potter|turquoise|cinnamon rolls|pony|Bramble|dancing|Bram
Jasper|he|Bobbin Hill|ferry captain|blue|carrot stew|owl|Poppet|dancing|Ines
Kester|he|Selvedge|cook|silver|potato cakes|hedgehog|Captain|carving wood|Odo
Linnet|she|Thistledown|clockmaker|orange|carrot stew|goose|Snowball|carving wood|Ilka
Marlo|he|Spindle Green|teacher|brown|fish stew|lamb|Pudding|collecting stones|Hanno
Nettie|she|Madder Cross|letter carrier|purple|cherry dumplings|goose|Toffee|watching birds|Wanda
Orla|she|Flaxford|shoemaker|gold|cherry dumplings|mouse|Truffle|pressing flowers|Perrin
Piet|he|Spindle Green|carpenter|blue|ginger biscuits|lamb|Zigzag|playing the drums|Tilda
Quill|he|Indigo Point|teacher|white|pear pudding|cat|Biscuit|juggling|Corin
Rosalind|she|Ravel End|doctor|brown|cinnamon rolls|parrot|Tumble|playing the flute|Greta
Stellan|he|Indigo Point|stargazer|purple|raspberry jelly|goat|Doodle|flying kites|Alder
Tilda|she|Flaxford|gardener|yellow|honey cake|dog|Thimble|swimming|Piet
Ulric|he|Flaxford|cook|pink|plum jam|hedgehog|Muffin|collecting stones|Kasimir
Vesna|she|Ravel End|miller|pink|roast chestnuts|duck|Nutmeg|playing the drums|Lotte
Willem|he|Thistledown|painter|yellow|honey cake|pony|Acorn|carving wood|Hob
Xanthe|she|Shuttle Bay|candle maker|blue|pumpkin soup|rabbit|Clover|telling riddles|Fenn
Yorick|he|Indigo Point|fiddler|purple|cheese toast|crow|Cobweb|climbing hills|Tamsin
Zella|she|Ravel End|weaver|brown|rice porridge|goose|Dusty|playing the flute|Magnus
Alder|he|Ravel End|gardener|red|pea soup|mouse|Hazel|swimming|Stellan
Bettina|she|Spindle Green|ferry captain|pink|ginger biscuits|lamb|Dumpling|building model boats|Suri
Corin|he|Selvedge|weaver|orange|noodle soup|tortoise|Crumpet|telling riddles|Quill
Dagny|she|Ravel End|tailor|white|pear pudding|tortoise|Cricket|pressing flowers|Jory
Edda|she|Selvedge|baker|orange|onion pie|crow|Rocket|flying kites|Nils
Florian|he|Madder Cross|blacksmith|red|fish stew|dog|Pebble|flying kites|Oskar
Gwendy|she|Thistledown|fisher|brown|pea soup|parrot|Pickle|skating|Nadia
Hanno|he|Bobbin Hill|shoemaker|red|pumpkin soup|duck|Wobble|climbing hills|Marlo
Ines|she|Thistledown|beekeeper|gold|blueberry pancakes|dog|Jingle|watching birds|Jasper
Juniper|she|Madder Cross|librarian|turquoise|apple tart|donkey|Sixpence|juggling|Tomas
Kasimir|he|Woolmere|librarian|blue|mushroom pie|crow|Sorrel|playing chess|Ulric
Lotte|she|Shuttle Bay|tailor|silver|walnut bread|owl|Tansy|building model boats|Vesna
Magnus|he|Shuttle Bay|lamplighter|green|lemon cake|donkey|Waffle|skating|Zella
Nadia|she|Indigo Point|blacksmith|yellow|barley bread|cat|Pip|playing chess|Gwendy
Oskar|he|Bobbin Hill|lamplighter|pink|roast chestnuts|frog|Mopsy|skating|Florian
Perrin|he|Madder Cross|potter|gold|rice porridge|goat|Mango|juggling|Orla
"""

# name | landmark | known for | flag | market day | mayor | festival | the road leads to
_VILLAGES = """
Woolmere|an old windmill|its warm blankets|blue and white|Monday|Hob|the Lamb Parade|Bobbin Hill
Bobbin Hill|a tall stone tower|its wooden toys|red and yellow|Tuesday|Suri|the Kite Festival|Thistledown
Shuttle Bay|a striped lighthouse|its smoked fish|blue and gold|Wednesday|Magnus|the Boat Race|Indigo Point
Thistledown|a bridge with three arches|its honey|purple and green|Thursday|Isolde|the Bee Dance|Flaxford
Spindle Green|a giant oak tree|its clocks|green and white|Friday|Bettina|the Spring Picnic|Woolmere
Madder Cross|a red clock tower|its painted pots|red and white|Saturday|Nettie|the Night of Colours|Ravel End
Indigo Point|a round observatory|its ink|dark blue and silver|Monday|Yorick|the Feast of Stars|Selvedge
Flaxford|a mossy watermill|its bread|yellow and green|Wednesday|Greta|the Harvest Supper|Spindle Green
Ravel End|a stone maze|its strong ropes|black and orange|Thursday|Zella|the Riddle Fair|Shuttle Bay
Selvedge|a glass greenhouse|its candles|white and gold|Saturday|Kester|the Lantern Walk|Madder Cross
"""

# name | looks | eats | lives | sound
_CREATURES = """
lumo|a small round bird with glowing feathers|moonberries|in hollow trees|a soft hum
moss hare|a green hare with long velvet ears|clover|in the old forest|a quiet squeak
tidefox|a silver fox with webbed paws|little crabs|on the beaches|a bubbling bark
threadworm|a thin golden worm that spins bright silk|mulberry leaves|in garden sheds|no sound at all
brindlebat|a striped bat as big as a teacup|gnats|under the bridges|a tiny click
grumbleback|a slow grey beast with a mossy back|thistles|in the marshes|a deep grumble
pipkin|a mouse with a curly tail|bread crumbs|in kitchen cupboards|a cheerful peep
cloudsheep|a white sheep so light that it floats|dew|on the hilltops|a dreamy baa
sparkfish|an orange fish that shines at night|water lilies|in the mill ponds|a small plop
willowhorse|a thin brown horse with a leafy mane|barley|by the river|a rustling neigh
knottle|a blue snake that ties itself in knots|beetles|under flat stones|a sleepy hiss
owlcat|a cat with wings and big yellow eyes|fish|in the church towers|a purring hoot
"""


def _rows(table):
    return [line.split("|") for line in table.strip().splitlines()]


PEOPLE = [Person(*row) for row in _rows(_PEOPLE)]
VILLAGES = [Village(*row) for row in _rows(_VILLAGES)]
CREATURES = [Creature(*row) for row in _rows(_CREATURES)]
PERSON = {p.name: p for p in PEOPLE}
VILLAGE = {v.name: v for v in VILLAGES}


def people_with(attribute: str, value: str) -> list[str]:
    """Names of all people whose attribute has that value, in the order of the table."""
    return [p.name for p in PEOPLE if getattr(p, attribute) == value]


def values_of(attribute: str) -> list[str]:
    """The distinct values of a person's attribute, in the order of the table."""
    return list(dict.fromkeys(getattr(p, attribute) for p in PEOPLE))
