// A token and its score: what kernels find, engines answer, the orchestrator chooses from. The same
// limits as src/sampling/token_logit.h.

export interface TokenLogit {
  readonly tokenId: number;
  readonly logit: number; // raw, or after penalties and biases, as whoever gives it says
}

// Candidates that are given for one row.
export const kMaxCandidates = 256;
// Tokens that are reported beside the one drawn: OpenAI's limit of top_logprobs.
export const kMaxTopLogprobs = 20;
