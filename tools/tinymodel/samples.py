"""Scripted users for the sample conversations, and the prompts of expected.json. Data only."""


def _users(*questions, system=""):
    """A script of [role, content]: an optional system prompt, then what the user says."""
    head = [["system", system]] if system else []
    return head + [["user", q] for q in questions]


CONVERSATIONS = (
    _users("Hello!", "My name is Ada.", "What can you do?", "Where does Mira live?",
           "And what about Tomas?", "What is my name?", "Thanks, bye!"),
    _users("what is weft", "how do i help", "Is my data private?",
           "What happens when a device leaves?"),
    _users("Tell me a story about a fox and a lantern.", "Nice! Another one, please."),
    _users("what is 7 times 8", "47 + 38", "and minus 20?", "What is 34 * 27?",
           "what is twelve plus nine?"),
    _users("Who is the baker of Flaxford?", "What is her hobby?", "Who is her best friend?",
           "Tell me about Shuttle Bay.", "Who lives there?", "What does a tidefox eat?"),
    _users("Who is the president of France?", "Where does Kevin live?",
           "Can you write Python code?", "ok tell me a joke", "haha another one"),
    _users("who are you?", "Ask me a riddle.", "I don't know.", "I am sad.",
           system="You are Bobbin, a friendly assistant."),
    _users("hi im tom", "i am bored", "tell me a story about a banana", "whats my name"),
    _users("How do I install it?", "Which models can I use?", "Is it fast?",
           "why is it called weft", "How big are you?"),
    _users("Where does Pella live?", "What is 6 + 7?", "What is Odo's job?",
           system="Answer briefly."),
    _users("I like cats. Do you like cats?", "do you know a good restaurant", "Is Mira a baker?",
           "Who likes blue best?", "Do Mira and Piet live in the same village?"),
    _users("Write a poem about the moon.", "Tell me a story about Mira.", "The end?"),
)

# Each is a raw text or a conversation; expected.json holds the greedy continuation of each.
EXPECTED = (
    "Once upon a time there was a little fox called",
    "Mira lives in",
    "3 + 4 =",
    _users("Hello!"),
    _users("Where does Mira live?"),
    _users("What is weft?"),
    _users("What is 47 + 38?"),
    _users("Tell me a story about a fox and a lantern."),
    _users("My name is Ada.", system="You are a helpful assistant.")
    + [["assistant", "Nice to meet you, Ada!"]] + _users("What is my name?"),
    _users("Who is the baker of Flaxford?")
    + [["assistant", "Pella is the baker of Flaxford."]] + _users("Where does Odo live?"),
)
