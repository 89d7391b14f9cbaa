// Tokenizers: text to ids and back. Raw bytes, SentencePiece through its library, and Hugging Face's tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/threads.h"

namespace athanor::data {

enum class TokenizerKind : uint8_t { kBytes, kUnigram, kBpe };
/// "bytes", "unigram" or "bpe": the words of configs, shards and `--json` outputs.
const char* name_of(TokenizerKind kind);

/// The ids with a meaning of their own; −1 where a tokenizer has none.
struct SpecialIds {
  int32_t unk = -1;
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t pad = -1;
};

/// Turns ids into text one by one and never cuts a UTF-8 character: what push() returns is whole
/// characters, and push()… + finish() together are what Tokenizer::decode gives for the same ids.
class StreamDecoder {
 public:
  virtual ~StreamDecoder() = default;
  virtual std::string push(int32_t id) = 0;
  /// The rest; bytes that make no character become U+FFFD. Afterwards the decoder is as new.
  virtual std::string finish() = 0;
};

/// A loaded tokenizer. Immutable: all functions may be called from many threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual TokenizerKind kind() const = 0;
  virtual int32_t vocab_size() const = 0;
  virtual SpecialIds special() const = 0;
  /// 32 hex digits: the checksum of the tokenizer's canonical file. Equal identities encode alike.
  virtual const std::string& identity() const = 0;
  /// The spelling of an id ("▁the", "<0x0A>", "</s>"), for `tokenizer inspect`; usage_error outside
  /// the vocabulary.
  virtual std::string piece(int32_t id) const = 0;

  /// The ids of `text` without special ones. decode() of them is `text` again, save that
  /// SentencePiece cannot tell U+2581 "▁" from a space. The length is not limited; memory is linear
  /// in it, time nearly so. Throws data_error with the byte offset where `text` is not UTF-8.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// Puts the special ids around those of a text: the ones a tokenizer.json's template says, else BOS and EOS, each
  /// where the tokenizer has it.
  virtual void add_special(std::vector<int32_t>& ids) const;

  /// The words that `text` is cut into before the model encodes each by itself, special tokens among them; the whole text
  /// where there is no such step. For `tokenizer inspect`. Throws as encode().
  virtual std::vector<std::string> words(std::string_view text) const;
  /// What is done to a text, (step, how), in order; nothing where that goes without saying.
  virtual std::vector<std::pair<std::string, std::string>> steps() const { return {}; }
  /// Where a long text may be cut so that the ids of its parts, one after the other, are those of the whole: the first such
  /// place in each `part_bytes`. A function of the text alone.
  virtual std::vector<size_t> safe_cuts(std::string_view text, size_t part_bytes) const;

  /// The text of `ids`, always UTF-8: bytes that make no character become U+FFFD each. Special ids
  /// are skipped, or spelled ("</s>") by the byte tokenizer when `skip_special` is false;
  /// SentencePiece itself never spells its control pieces. An id outside the vocabulary gives
  /// nothing (models pad their vocabulary).
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;
  virtual std::unique_ptr<StreamDecoder> stream_decoder(bool skip_special = true) const = 0;

  /// The tokenizer's files in a model directory (name, content): `tokenizer.json` and
  /// `tokenizer_config.json` for Hugging Face's AutoTokenizer, and for SentencePiece
  /// `tokenizer.model`. That one alone when the model uses what a tokenizer.json of ours cannot say
  /// (a normalizer, a dummy prefix). A pure function of the tokenizer.
  virtual std::vector<std::pair<std::string, std::string>> files() const = 0;
};

/// Ids 0–255 are the bytes of UTF-8, 256 is <s> and 257 </s>.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Loads by content, whatever the name: a SentencePiece model file, a `tokenizer.json`, or a folder (a
/// model, a checkpoint, a pack, …) that holds `tokenizer.model` or `tokenizer.json`. Of both, the JSON counts, as in Hugging Face's
/// AutoTokenizer, unless it is what we write of the model, or (with a warning) of a kind that is not known. What lies beside a
/// file of the name tokenizer.json (tokenizer_config.json …) belongs to it.
/// data_error when it is missing, damaged or of a kind that is not known.
std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& path);
/// True when `folder` holds a file by which load_tokenizer would go.
bool holds_tokenizer(const fs::path& folder);

/// encode() of each text, spread over `threads`, a long one in parts where that is safe; the result does not depend on
/// their number.
std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer,
                                             std::span<const std::string> texts,
                                             const Threads& threads);

}  // namespace athanor::data
