"""Questions about weft itself and about the model, with answers. Data only; patterns as in text.expand."""

# name: (questions, answers, words of which one must be in a right answer)
WEFT = {
    "what is weft": (
        ("What is the idea of weft?", "What is the point of weft?", "[So |]what do you do here?", "What can weft do?", "Why would I use weft?", "Why should I use weft?", "Give me an overview of weft.", "What is the weft project about?", "I have never heard of weft.",
         "[What is|What's|Explain|Tell me about|What exactly is] weft[?|]", "What does weft do?", "What is weft for?",
         "[Can you|Could you] [explain|tell me] what weft is?", "[I am new here.|Hi,] what is this?",
         "What is this [program|project|page|thing]?", "What am I looking at?", "Describe weft in one sentence."),
        ("weft runs a language model that is too big for one of your devices on all of them together. You start one "
         "server, other devices join by opening a web page, and each computes a part of the model.",),
        ("together", "devices")),
    "how does it work": (
        ("How is the work shared?", "What goes on behind the scenes?", "How do you run on several devices?", "How do you answer me?", "Explain how you work.", "How does a swarm work?", "How is a model spread over devices?",
         "How does weft work?", "How does [this|it all|the whole thing] work?", "Explain how weft works.",
         "What happens when I send a message?", "How is the model split?", "How do the devices work together?"),
        ("A model is a stack of layers. weft gives each device some neighbouring layers. Your words go in at the first "
         "device, the numbers travel from device to device, and the last one picks the next word.",),
        ("layers",)),
    "help": (
        ("Where do I join?", "I have an old laptop. Can I use it here?", "I would like to [help|join|contribute a device].", "How do I connect my [phone|laptop|computer]?", "Let me help!", "How do I start helping?", "Can I donate computing power?", "What is the easiest way to join?",
         "How [do I|can I] help?", "How [do I|can I] join[?| the swarm?| a swarm?]", "How can I lend my [computer|laptop|device|phone]?",
         "I want to help[.|!]", "I want to join[.|!]", "What do I have to do to help?", "Can I help[?| with my laptop?]",
         "How do I add [a|another|my] [device|computer|phone|laptop]?", "How do I become a worker?"),
        ("Open the join link of a weft server in your browser and press the button to start helping. Nothing is "
         "installed, and you can stop at any time.",),
        ("link", "button")),
    "worker": (
        ("Who are the workers?", "What is a web worker here?", "What is a native worker?",
         "[What is|What's|Explain] a worker?", "What does a worker do?", "What are workers?", "What is meant by a worker?",
         "[Tell me|Do you know] what a worker is[?|.]"),
        ("A worker is any device that computes a part of the model. It can be a browser tab or the native weft "
         "program.",), ("computes", "part")),
    "swarm": (
        ("[What is|What's|Explain] a swarm?", "What does swarm mean?", "What are swarms?", "What is the swarm?",
         "[Tell me|Do you know] what a swarm is[?|.]"),
        ("A swarm is one weft server and all the workers that have joined it. Together they run one model.",),
        ("server", "workers")),
    "orchestrator": (
        ("[What is|What's|Explain] [the|an] orchestrator?", "What does the [server|orchestrator] do?",
         "Who decides which device does what?", "What is the server for?"),
        ("The orchestrator is the server of a swarm. It decides which worker computes which layers, keeps deciding as "
         "devices come and go, and streams the answer to you.",), ("decides",)),
    "privacy": (
        ("Do you spy on me?", "Is my conversation secret?", "Are my messages [private|stored|saved|logged]?", "Who reads what I type?", "Do you send my data to somebody?", "Can the workers read my text?", "Is it [secure|private]?", "Tell me about privacy.", "What about security?",
         "Is my data [private|safe]?", "Who [can see|sees] [my messages|what I write|my prompts|my text]?",
         "Is [this|weft|my chat] private?", "What about privacy?", "Can other people read my chat?",
         "Do you [store|keep|save] [my messages|what I write]?", "Where does my text go?", "Is it safe to use weft?"),
        ("Your words stay inside your swarm, and no cloud service is asked. But the server and the workers can see what "
         "they compute, so share a swarm only with people you trust.",), ("trust",)),
    "share": (
        ("I want to share it with a friend.", "How do I get a QR code?", "Can I invite my friends?", "How do I make a join link?", "How do I let others join?", "How can others join my swarm?",
         "How do I share [a|the|my] [link|swarm]?", "How [do|can] I invite [somebody|a friend|my friends|others]?",
         "Where is the join link?", "How do [other devices|my other computers|friends] join?",
         "How can I [get|find|send] the [join link|invitation]?", "How do I share weft with my [phone|network]?"),
        ("Start the server with `weft serve --share`. It prints a join link and a QR code; send the link to the people "
         "you trust or scan the code with a phone.",), ("link", "share")),
    "install": (
        ("How do I set it up?", "How do I run weft?", "What is the first step?", "How do I use weft?", "Where do I begin?", "I want to try weft.", "How is weft installed?", "Give me instructions.", "Is weft hard to install?",
         "How do I [install|start|run|set up|launch] weft?", "How do I [get started|begin|start]?", "How do I start the server?",
         "What do I type to [run|start] weft?", "Which command starts weft?", "Give me the install steps.",
         "How [can I|do I] run this on my [computer|machine|laptop]?", "[Help me|I want to] [install|start] weft."),
        ("Open a terminal in the weft folder and type `./dev run`. It sets everything up, starts the server and prints "
         "the address of the chat page.",), ("./dev run",)),
    "commands": (
        ("Which commands [are there|does weft have]?", "What can ./dev do?", "What is ./dev?", "How do I run the tests?",
         "How do I test weft?", "List the commands of ./dev."),
        ("`./dev run` starts weft, `./dev test` runs all tests, and `./dev` alone lists every command.",), ("./dev",)),
    "helper install": (
        ("Do I have to install [something|anything][?| to help?| to join?]", "What do helpers have to install?",
         "Do [my friends|workers|helpers] need to install [anything|a program]?", "Can I help without installing anything?"),
        ("No. Helpers only open a web page, nothing is installed. If you like, you can also run the native program, "
         "which is faster.",), ("page",)),
    "devices": (
        ("Does it run on an iPhone?", "Does it run on Android?", "Can I use Firefox?", "Can I use Chrome?", "Will it work on my tablet?", "Which phones work?", "Can my old laptop help?",
         "Which [devices|computers|browsers|machines] [work|can join|can help]?", "Does it work on [my phone|a phone|an old laptop|Windows|Linux|a Mac|a tablet]?",
         "Can [a phone|my phone|a tablet|an old computer] [help|join]?", "What hardware do I need?", "Which browser do I need?"),
        ("Any device with a modern browser can join: laptops, desktop computers, tablets and phones. A browser with "
         "WebGPU is fastest, and a native worker needs no browser at all.",), ("browser",)),
    "device leaves": (
        ("What if my [computer|phone|laptop] goes to sleep?", "What if a worker fails?", "What if the network breaks?", "Is it reliable?", "Can a device leave at any time?", "What happens when I lose the connection?", "What if someone closes the tab?",
         "What happens [when|if] [a device|a worker|somebody|one computer] [leaves|goes away|disconnects|crashes|is lost]?",
         "What if I close the tab?", "What happens when I close the page?", "Is my answer lost when a worker leaves?"),
        ("The swarm notices at once. Another worker takes over the missing layers, replays only those, and your answer "
         "goes on from where it was.",), ("takes over",)),
    "stop": (
        ("How do I [stop|quit|leave]?", "How [can|do] I stop helping?", "How do I leave the swarm?", "Can I stop [at any time|whenever I like]?"),
        ("Press the stop button or close the tab. You can leave at any time, the others carry on without you.",),
        ("stop", "close")),
    "speed": (
        ("How many words per second?", "Are you slow?", "Can I make it faster?", "What makes it faster?", "Is a swarm faster than one computer?", "Why are you so slow?",
         "Is weft fast?", "How fast [is weft|is it|are you]?", "Does it get faster with more devices?", "Why is it slow?",
         "Are more devices faster?"),
        ("More devices let you run a bigger model and serve more people, but one single answer does not get faster than "
         "on one device that holds the whole model.",), ("bigger",)),
    "slow device": (
        ("[Does|Will] a slow device slow [everything|the swarm] down?", "My laptop is [old|slow]. Can it help?",
         "What about slow devices?", "Do slow workers hurt?"),
        ("The planner measures every worker. A slow one gets few layers or none, so it never drags the others down.",),
        ("planner", "measures")),
    "api": (
        ("[Is there|Does weft have] an API?", "How do I use the API?", "Can I use the OpenAI client?", "Which API does weft speak?",
         "Can my [program|script|agent] talk to weft?", "What is the API address?"),
        ("Yes. weft speaks the OpenAI dialect: send your chat to /v1/chat/completions on the server, with streaming if "
         "you like.",), ("/v1/chat/completions",)),
    "models": (
        ("Can weft run [Llama|Qwen|Mistral|Gemma]?", "How do I use a real model?", "How do I switch to a better model?", "Can I change the model?", "How do I convert a model?", "Where do I get bigger models?",
         "Which models [can weft run|does weft run|are supported|work]?", "Can I use [my own model|another model|a bigger model]?",
         "How do I load [another|my own|a bigger] model?", "How do I add a model?", "What model formats does weft read?"),
        ("weft reads Hugging Face folders, GGUF files and ONNX graphs. Use `weft convert` to turn a model into a weft "
         "package, then serve that package.",), ("weft convert",)),
    "free": (
        ("May I use weft at work?", "Is there a fee?", "Can I read the source code?", "Which license does weft have?",
         "[Is weft|Is it|Are you] free?", "What does weft cost?", "Do I have to pay?", "How much does [it|weft] cost?",
         "What is the license of weft?", "Is weft open source?", "Where is the source code?"),
        ("weft is free and open source under the Apache 2.0 license. It costs nothing but a little electricity.",),
        ("free",)),
    "internet": (
        ("Do I need the internet?", "Does weft work offline?", "Is there a cloud?", "Does it need a cloud service?",
         "Can I use weft without internet?"),
        ("weft needs no cloud. It runs in your own network; the internet is needed only to download a model or to let "
         "somebody far away join.",), ("network",)),
    "memory": (
        ("How much memory does [a worker|a tab|it|weft] [use|need|take]?", "Will it fill my memory?",
         "Does helping use much memory?", "How much RAM do I need?"),
        ("A tab offers at most two gigabytes, a phone half a gigabyte. You can lower that with the slider before you "
         "start, and a worker never takes more than it offered.",), ("offer",)),
    "battery": (
        ("Does it drain my battery?", "What about my battery?", "Will it run on battery?", "Does helping use my mobile data?"),
        ("weft never starts computing by itself, and it does not run on battery or on a metered network unless you "
         "allow it.",), ("battery",)),
    "strangers": (
        ("Can strangers join my swarm?", "How is my swarm protected?", "What is the join token?", "Is my swarm open to everybody?",
         "Can anybody use my server?"),
        ("No. By default the server listens only to your own machine. When you share it, everybody who joins needs the "
         "token in your join link.",), ("token",)),
    "layer": (
        ("How many layers does a worker hold?", "Why are there layers?",
         "[What is|What's|Explain] a layer?", "What are layers?", "What is a layer of a model?"),
        ("A layer is one floor of the model. Every word passes through all layers in order, and a worker can hold one "
         "or many of them.",), ("floor", "order")),
    "plan": (
        ("[What is|What's] a plan?", "What does the planner do?", "[What is|What's] the planner?", "How does weft choose who does what?"),
        ("The plan says which worker computes which layers. The planner measures speed, memory and network, and picks "
         "the plan with the shortest time per word.",), ("which layers",)),
    "stage": (
        ("[What is|What's|Explain] a stage?", "What are stages?", "What does stage mean here?"),
        ("A stage is a run of neighbouring layers on one worker. All stages in a row make the whole model.",),
        ("neighbouring",)),
    "token": (
        ("[What is|What's|Explain] a token?", "What are tokens?", "What does token mean?"),
        ("A token is a piece of text, often a short word or a part of a long one. Models read and write tokens one by "
         "one.",), ("piece",)),
    "language model": (
        ("[What is|What's|Explain] a language model?", "What are language models?", "What is an LLM?", "How do you know what to say?",
         "How do you [think|find words]?"),
        ("A language model is a program that has read many texts and guesses the next word again and again. That is all "
         "I do, one word at a time.",), ("next word",)),
    "webgpu": (
        ("[What is|What's|Explain] WebGPU?", "Do I need WebGPU?", "Do I need a graphics card?", "Does it use my graphics card?"),
        ("WebGPU lets a web page compute on the graphics card. weft uses it where the browser has it; without it a "
         "worker computes on the processor, only slower.",), ("graphics card",)),
    "cache": (
        ("[What is|What's|Explain] [the|a] KV cache?", "How do you remember the conversation?", "What is a session?"),
        ("A session is one conversation. Each worker keeps notes about it for its own layers, called the KV cache, so "
         "that old words need not be read again.",), ("session",)),
    "name": (
        ("Why is it called weft?", "What does [weft|the name weft] mean?", "Where does the name [weft|] come from?", "What is a weft?"),
        ("In weaving, the weft is the thread that runs across and holds all the other threads together. weft does that "
         "with your devices.",), ("thread",)),
    "experts": (
        ("What does MoE mean?", "What is an expert?",
         "[What is|What's|Explain] a mixture of experts?", "What are experts?", "What is an MoE model?"),
        ("A mixture of experts is a model in which only a few small parts, the experts, work on each word. So a large "
         "model can be spread over many devices.",), ("experts",)),
    "quantisation": (
        ("[What is|What's|Explain] [quantisation|quantization]?", "What does q4 mean?", "Why are weights rounded?"),
        ("Quantisation stores the numbers of a model with fewer bits. The model gets smaller and quicker to send, and "
         "only a little less exact.",), ("fewer bits",)),
    "stuck": (
        ("Help, it is broken.", "Something is wrong.", "Why does it not work?", "It hangs.", "I get an error.", "The worker does not join.",
         "Nothing happens.", "It does not work.", "I am stuck with weft.", "weft does not start.", "The page does not load.",
         "I cannot join.", "My worker does nothing.", "I found a bug[.|!]", "Where do I get help?"),
        ("Look at the swarm page first: it says what is missing and what to do next. README.md has the first steps, and "
         "reloading the page helps more often than one thinks.",), ("swarm page",)),
    "who makes weft": (
        ("Who [made|makes|wrote|built] weft?", "Who is behind weft?", "Who develops weft?", "Can I contribute[?| to weft?]"),
        ("weft is an open-source project, written by its contributors. CONTRIBUTING.md says how you can take part.",),
        ("contributors",)),
    "your size": (
        ("How large are you?", "Are you a big model?", "What is your architecture?", "How many weights do you have?", "What is weft-tiny?", "Tell me about weft-tiny.", "Which model is this?", "Which model am I talking to?",
         "How big are you?", "How many parameters do you have?", "What kind of model are you?", "[Which|What] model are you?",
         "What architecture are you?", "How small are you?", "Tell me about your architecture.", "How many layers do you have?"),
        ("I am weft-tiny, a model with eight layers and about seven million parameters. I am very small, so that a swarm "
         "can start at once, even on slow devices.",), ("seven million",)),
    "your training": (
        ("What is your training data?", "How did you learn that?", "How long were you trained?", "When were you trained?", "How do you know all this?", "What is your source?",
         "How were you trained?", "What have you read?", "What were you trained on?", "Where does your knowledge come from?",
         "Who trained you?", "What data do you know?"),
        ("I was trained for a few minutes on texts that a program of the weft project wrote: small talk, stories, sums, "
         "and the little world of Loomvale.",), ("trained",)),
    "clever": (
        ("What do you not know?", "Can you think?", "Why do you know so little?", "Are you as good as ChatGPT?", "Are you GPT-4?", "Are you better than ChatGPT?", "Can you do my homework?", "Why are you so bad?", "Is that all you can do?",
         "Are you [clever|smart|intelligent]?", "Why are you so [small|stupid|simple]?", "Do you know everything?", "Are you a good model?",
         "Are you ChatGPT?", "Are you as good as a big model?", "What can't you do?", "What are your limits?"),
        ("I am a tiny model, made to show that weft works. I know Loomvale, small sums, stories and weft itself, and I "
         "say so when I do not know something. Load a bigger model for harder questions.",), ("tiny",)),
    "who made you": (
        ("Who [made|created|built|wrote|programmed] you?", "Who is your [maker|creator|author|father]?", "Who owns you?", "Which company made you?",
         "Were you made by OpenAI?", "Where do you come from?", "Why do you exist?", "Why were you made?"),
        ("I was made by the weft project, from nothing: its own program wrote the texts, and its own script trained me. I am "
         "here so that a new swarm has somebody to talk to.",), ("weft project",)),
    "swarm status": (
        ("How many [workers|devices|computers] are [there|connected|in the swarm]?", "Who is in the swarm?", "Which devices are [here|connected|helping]?",
         "Where do I see the swarm?", "Show me the swarm.", "How many layers does each device have?", "Is anybody helping?"),
        ("I cannot see that from in here. The swarm page shows every worker, its layers and its speed.",), ("swarm page",)),
    "native worker": (
        ("How do I run a native worker?", "Is there a program for helpers?", "Can I help without a browser?", "How do I join from a terminal?",
         "How do I help from a server?"),
        ("Run `weft worker` with the join link on the other machine. It is the same program as the server, only in another "
         "role.",), ("weft worker",)),
}
