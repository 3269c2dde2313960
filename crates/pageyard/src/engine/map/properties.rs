//! What holds of the packed words, for every value that they can have.
//!
//! Each property is a function of a word and the arguments of a transition. `every` tries them exhaustively:
//! descriptors in all that a pageblock can be (2,229,120 words, without their sequence), tags in all 256 bytes, biases
//! in every state with the first, a middle and the last CPU, generation and count of strangers. `proofs` are harnesses
//! for Kani, which takes all words and all arguments. `docs/design/frame-map.md` names the properties.

mod biases;
mod descriptors;
#[cfg(test)]
mod every;
mod parts;
#[cfg(kani)]
mod proofs;
mod tags;
