"""Who, what and where of the stories. Data only."""

# hero nouns; "she" or "he" is drawn unless the noun decides
ANIMALS = (
    "fox owl rabbit bear mouse hedgehog squirrel badger wolf deer frog turtle tortoise duck goose swan crow robin sparrow "
    "cat kitten dog puppy pony donkey goat lamb pig hen rooster cow bee butterfly snail ant beetle spider fish whale seal "
    "otter beaver penguin parrot monkey lion tiger elephant giraffe zebra camel kangaroo koala panda bat mole lizard "
    "dolphin crab raccoon moose hamster"
).split()
PEOPLE_HEROES = (
    "girl boy child robot dragon wizard princess prince knight pirate ghost giant witch king queen fairy unicorn snowman "
    "dinosaur monster mermaid elf troll baker sailor farmer teacher painter shepherd astronaut clown miller fisherman "
    "gardener dwarf inventor"
).split()
FIXED_PRONOUN = {"girl": "she", "boy": "he", "princess": "she", "prince": "he", "witch": "she", "king": "he", "queen": "she",
                 "hen": "she", "rooster": "he", "cow": "she", "mermaid": "she", "fisherman": "he", "wizard": "he", "fairy": "she"}
ITEMS = (
    "lantern kite key map drum bell boat hat scarf umbrella book letter ring mirror basket blanket ball flute violin clock "
    "compass candle button pebble feather shell coin cup teapot spoon bottle box ladder rope wheel cart sled bicycle "
    "balloon puppet doll crown sword flag pen brush whistle telescope necklace pumpkin apple cake cookie pie seed acorn "
    "flower rose pillow coat backpack trumpet lamp locket marble jar"
).split()
ITEM_ADJECTIVES = "little old shiny small special pretty bright".split()
TRAITS = "curious shy brave cheerful clumsy gentle sleepy clever quiet kind proud careful playful patient".split()
NAMES = (
    "Milo Tilly Rufus Poppy Otis Luna Bruno Daisy Felix Ruby Oscar Hazel Monty Ivy Gus Nell Teddy Willa Barney Lottie Archie "
    "Minnie Jasper Mabel Hugo Elsie Rollo Pearl Toby Wren Basil Flora Ned Olive Casper Rosie Moss Bella Timo Fern Pepper "
    "Juno Remy Dot Leo Maple Finley Tess Benny Mina Sunny Ollie Birdie Walt Kiki Ziggy Nora Alfie Coco Bertie Lila"
).split()

# noun -> (phrase with preposition, the place itself, three spots in it)
PLACES = {
    "forest": ("in a quiet forest", "the forest", ("the old oak", "the blackberry bushes", "the mossy stones")),
    "village": ("in a small village", "the village", ("the well", "the bakery", "the church gate")),
    "sea": ("by the sea", "the beach", ("the high rocks", "the wooden pier", "the old boats")),
    "mountain": ("on a high mountain", "the mountain", ("the tall pine", "the cave", "the rocky path")),
    "meadow": ("in a wide meadow", "the meadow", ("the crooked fence", "the tall grass", "the lonely apple tree")),
    "castle": ("in an old castle", "the castle", ("the tower stairs", "the great hall", "the rose garden")),
    "garden": ("in a big garden", "the garden", ("the pond", "the shed", "the bean rows")),
    "river": ("by a slow river", "the river", ("the stone bridge", "the reeds", "the old mill")),
    "island": ("on a tiny island", "the island", ("the palm trees", "the white sand", "the lighthouse")),
    "farm": ("on a sunny farm", "the farm", ("the barn", "the haystack", "the duck pond")),
    "city": ("in a busy city", "the city", ("the clock tower", "the market square", "the park gate")),
    "lighthouse": ("in a lonely lighthouse", "the lighthouse", ("the winding stairs", "the little kitchen", "the rocks below")),
    "mill": ("in an old windmill", "the mill", ("the grain sacks", "the wooden stairs", "the yard")),
    "snow": ("in the land of snow", "the snowy land", ("the frozen lake", "the ice cave", "the white hills")),
    "lake": ("by a deep lake", "the lake", ("the willow tree", "the little boat house", "the water lilies")),
    "hill": ("on a green hill", "the hill", ("the stone circle", "the lonely tree", "the sheep path")),
}

ENDINGS = (
    "And from that day on, {H} and {F} were the best of friends.",
    "That evening {H} fell asleep with a smile.",
    "And if you pass {place} some day, you may still see {H} and {F} there together.",
    "From then on, nobody {in_place} ever felt alone again.",
    "{H} told the story for many years, and {F} always laughed at the right places.",
    "That night the stars shone a little brighter than before.",
)
