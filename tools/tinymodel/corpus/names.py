"""Names of users and of strangers. None of them lives in Loomvale."""

from . import world
from .split import held_out

COMMON = (
    "Ada Adam Alex Alice Amina Amir Amy Ana Andrea Anna Anton Aria Arthur Ben Bella Boris Carla Carlos Carol Chen Chloe "
    "Chris Clara Daniel David Diana Diego Dmitri Elena Eli Elif Elliot Emil Emily Emma Erik Eva Fatima Felix Finn Frank "
    "Freya Gabriel George Grace Hannah Hans Harry Heidi Helen Henry Hugo Ian Ibrahim Ida Igor Iris Isaac Ivan Jack Jacob "
    "James Jana Jane Javier Jin Joe John Jonas Julia Kai Karim Karl Kate Kenji Kevin Kim Klaus Lara Laura Lena Leo Liam "
    "Lily Linda Lisa Louis Lucas Lucy Luis Luna Maria Mark Marta Martin Mary Max Maya Mei Mia Michael Mila Mohammed Nico "
    "Nina Noah Nora Olga Oliver Olivia Omar Oscar Pablo Paul Paula Pavel Pedro Peter Priya Rafael Raj Ravi Rosa Ruth Sam "
    "Sara Sarah Sasha Sofia Sophie Stefan Susan Tariq Theo Thomas Tim Tina Tom Uma Vera Victor Vikram Wei William Yara "
    "Yuki Yusuf Zoe Bob Charlie Eve Frida Gus Hana Ingrid Jamal Kira Lola Moritz Nadine Otto Petra Quentin Rita Sven "
    "Tanya Ursula Vince Wendy Xavier Yasmin Zack"
).split()

_START = "B Br C Ch D Dr F Fl G Gr H J K Kr L M N P Pr R S Sh St T Tr V W Y Z".split()
_VOWEL = "a e i o u a e i o ee oo ai".split()
_MIDDLE = "b d g k l ll m n nn r rr s ss t tt v z nd rl st".split()
_END = ["", "", "n", "l", "r", "s", "m", "x", "th", "ck", "na", "la", "ra", "do", "ko"]


def invented(rng) -> str:
    """A made-up capitalised word of two or three syllables: teaches copying of words that no list holds."""
    word = rng.choice(_START) + rng.choice(_VOWEL) + rng.choice(_MIDDLE) + rng.choice(_VOWEL)
    if rng.random() < 0.3:
        word += rng.choice(_MIDDLE) + rng.choice(_VOWEL)
    return word + rng.choice(_END)


def stranger(rng, wanted_held_out: bool = False) -> str:
    """A first name that nobody in Loomvale has; in training never one of the held-out names."""
    while True:
        name = rng.choice(COMMON) if rng.random() < 0.6 else invented(rng)
        if name not in world.PERSON and held_out("name", name, percent=10) == wanted_held_out:
            return name
