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
    "Tanya Ursula Vince Wendy Xavier Yasmin Zack Aaron Abby Abdul Agnes Aisha Akira Alan Albert Aldo Alfred Alma Alvin "
    "Amanda Amelia Amos Anders Andre Andrew Angela Anita Annika Arjun Arnold Astrid Audrey Aya Barbara Beatrice Ben Bernard "
    "Bianca Bill Birgit Blake Bridget Bruce Caleb Camilla Carmen Caroline Cecil Celia Cedric Claire Claude Colin Connor "
    "Craig Cyrus Dale Damian Dana Darya Dean Deborah Dennis Derek Dilip Dina Dominic Donna Doris Douglas Duncan Dylan Edgar "
    "Edith Edmund Edward Edwin Eileen Elaine Eleanor Elisa Ellen Elsa Enzo Eric Ernest Esther Ethan Eugene Evelyn Fabian "
    "Fiona Flavia Francis Fred Gail Gary Gavin Geoff Gerald Gina Giulia Gloria Gordon Graham Greg Guido Guy Harold Harriet "
    "Hassan Heather Hector Herbert Hilda Hiro Holly Howard Humphrey Ilya Irene Irma Isabel Ismail Jackie Jake Jan Janet Jason "
    "Jay Jean Jeff Jenny Jeremy Jerome Jesse Jill Joan Joanna Joel Jonathan Jordan Joseph Joy Juan Judith Justin Kamal Karen "
    "Keith Kelly Ken Kyle Lars Lauren Lee Leila Leonard Leslie Lewis Lorenzo Lorna Lucia Luke Lydia Lynn Mabel Madeleine "
    "Malik Manuel Marco Margaret Marie Mario Marion Martha Matilda Matt Maurice Meera Megan Melissa Mercy Mike Miles Miriam "
    "Mohan Molly Monica Morgan Muriel Nancy Naomi Natalie Nathan Neil Nicholas Nicole Nigel Norman Nour Odette Olaf Owen Pamela "
    "Parvati Patricia Patrick Percy Perry Phil Philip Phoebe Rachel Ralph Ramona Ray Rebecca Regina Reza Rhoda Richard Rob "
    "Robert Robin Roger Roland Ron Rory Ross Roy Rupert Russell Ryan Salma Samuel Sandra Scott Sean Selma Sergei Seth Shane "
    "Sharon Sheila Shirin Sidney Simon Sonia Spencer Stella Stephen Steve Stuart Sue Suresh Sylvia Tamara Tara Ted Teresa Terry "
    "Tilo Toby Todd Tony Tracy Trevor Troy Tyler Valerie Vanessa Vernon Vincent Violet Virginia Vivian Walter Wanja Warren Wayne "
    "Winston Yusra Yves Yvonne Zara"
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


def _mutated(rng) -> str:
    """Two halves of known names, or one letter changed: covers word pieces that invented() never makes."""
    left, right = rng.choice(COMMON), rng.choice(COMMON)
    if rng.random() < 0.6:
        return left[:rng.randrange(2, len(left) + 1)] + right[rng.randrange(1, len(right)):]
    i = rng.randrange(1, len(left))
    return left[:i] + rng.choice("abcdefghijklmnopqrstuvwxyz") + left[i + 1:]


def stranger(rng, wanted_held_out: bool = False) -> str:
    """A first name that nobody in Loomvale has; in training never one of the held-out names."""
    while True:
        name = rng.choice((rng.choice(COMMON), rng.choice(COMMON), invented(rng), _mutated(rng)))
        if name not in world.PERSON and held_out("name", name, percent=10) == wanted_held_out:
            return name
