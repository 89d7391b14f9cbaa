// Decoders of tokenizer.json: tokens to text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/hf/json_fields.h"

namespace athanor::data::hf {

/// Takes tokens one by one, each in one or more parts.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  /// A part of the present token.
  virtual void text(std::string_view part) = 0;
  /// The present token is complete.
  virtual void end_token() = 0;
  /// No more tokens come. Afterwards the sink is as new.
  virtual void finish() = 0;
};

/// One kind of decoder. Immutable.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// A running decoder, whose tokens go to `next`. It passes on what is certain and holds back the rest.
  virtual std::unique_ptr<TokenSink> start(TokenSink& next) const = 0;
};

/// The `decoder` of a file, its steps in order. Types that are not known are refused by name.
std::vector<std::unique_ptr<Decoder>> read_decoder(const Field& field);

}  // namespace athanor::data::hf
