"""Scripted users for the sample conversations and prompts for expected.json. Data only."""

CONVERSATIONS = (
    (("user", "Hello!"), ("user", "My name is Ada."), ("user", "What can you do?"), ("user", "Where does Mira live?"),
     ("user", "And what about Tomas?"), ("user", "What is my name?"), ("user", "Thanks, bye!")),
    (("user", "what is weft"), ("user", "how do i help"), ("user", "Is my data private?"), ("user", "What happens when a device leaves?")),
    (("user", "Tell me a story about a fox and a lantern."), ("user", "Nice! Another one, please.")),
    (("user", "what is 7 times 8"), ("user", "47 + 38"), ("user", "and minus 20?"), ("user", "What is 34 * 27?"),
     ("user", "what is twelve plus nine?")),
    (("user", "Who is the baker of Flaxford?"), ("user", "What is her hobby?"), ("user", "Who is her best friend?"),
     ("user", "Tell me about Shuttle Bay."), ("user", "Who lives there?"), ("user", "What does a tidefox eat?")),
    (("user", "Who is the president of France?"), ("user", "Where does Kevin live?"), ("user", "Can you write Python code?"),
     ("user", "ok tell me a joke"), ("user", "haha another one")),
    (("system", "You are Bobbin, a friendly assistant."), ("user", "who are you?"), ("user", "Ask me a riddle."),
     ("user", "I don't know."), ("user", "I am sad.")),
    (("user", "hi im tom"), ("user", "i am bored"), ("user", "tell me a story about a banana"), ("user", "whats my name")),
    (("user", "How do I install it?"), ("user", "Which models can I use?"), ("user", "Is it fast?"), ("user", "why is it called weft"),
     ("user", "How big are you?")),
    (("system", "Answer briefly."), ("user", "Where does Pella live?"), ("user", "What is 6 + 7?"), ("user", "What is Odo's job?")),
    (("user", "I like cats. Do you like cats?"), ("user", "do you know a good restaurant"), ("user", "Is Mira a baker?"),
     ("user", "Who likes blue best?"), ("user", "Do Mira and Piet live in the same village?")),
    (("user", "Write a poem about the moon."), ("user", "Tell me a story about Mira."), ("user", "The end?")),
)

# Each is a raw text or a conversation; expected.json holds the greedy continuation of each.
EXPECTED = (
    "Once upon a time there was a little fox called",
    "Mira lives in",
    "3 + 4 =",
    [["user", "Hello!"]],
    [["user", "Where does Mira live?"]],
    [["user", "What is weft?"]],
    [["user", "What is 47 + 38?"]],
    [["user", "Tell me a story about a fox and a lantern."]],
    [["system", "You are a helpful assistant."], ["user", "My name is Ada."], ["assistant", "Nice to meet you, Ada!"],
     ["user", "What is my name?"]],
    [["user", "Who is the baker of Flaxford?"], ["assistant", "Pella is the baker of Flaxford."], ["user", "Where does Odo live?"]],
)
