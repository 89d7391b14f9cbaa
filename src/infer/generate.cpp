#include "infer/generate.h"

#include <algorithm>
#include <memory>

#include "base/memory.h"
#include "infer/sequences.h"

namespace athanor::infer {
namespace {

/// How the texts share calls of the model.
struct Layout {
  int64_t capacity = 0;  // tokens of a sequence
  int64_t chunk = 0;     // of one prompt that a call reads
  int64_t budget = 0;    // of all prompts that a call reads

  explicit Layout(std::span<const Prompt> prompts) {
    for (const Prompt& prompt : prompts) {
      const auto length = static_cast<int64_t>(prompt.ids.size());
      // The last token drawn is never read by the model.
      capacity = std::max(capacity, length + prompt.options.max_tokens - 1);
      chunk = std::max(chunk, std::min(length, prompt.options.chunk));
      budget = std::max(budget, prompt.options.chunk);
    }
  }
};

/// The texts in hand, each in its place.
class Batch {
 public:
  Batch(Session& session, std::span<const Prompt> prompts, int64_t at_once, GenerationSink& sink)
      : prompts_(prompts),
        sink_(sink),
        layout_(prompts),
        threads_(session.context().threads()),
        sequences_(session.context(), session.model(), session.activations(), at_once,
                   layout_.capacity, layout_.chunk),
        places_(static_cast<size_t>(at_once)) {}

  void run() {
    while (fill_places()) {
      gather();
      sequences_.run();
      threads_.run(static_cast<int64_t>(ready_.size()), [&](int64_t i, int) {
        Place& place = places_[static_cast<size_t>(ready_[static_cast<size_t>(i)])];
        place.last = place.sampler->sample(sequences_.logits(ready_[static_cast<size_t>(i)]));
      });
      for (const int64_t number : ready_) advance(places_[static_cast<size_t>(number)]);
    }
  }

 private:
  struct Place {
    bool busy = false;
    size_t text = 0;
    size_t read = 0;    // tokens of the prompt
    int64_t drawn = 0;  // tokens
    int32_t last = 0;   // of these
    std::unique_ptr<Sampler> sampler;
  };

  /// Begins texts where there is a place; false when none is left in hand.
  bool fill_places() {
    bool any = false;
    for (size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[i];
      if (!place.busy && next_ < prompts_.size()) {
        sequences_.reset(static_cast<int64_t>(i));
        place = {.busy = true,
                 .text = next_,
                 .sampler = std::make_unique<Sampler>(prompts_[next_].options.sampling)};
        ++next_;
      }
      any |= place.busy;
    }
    return any;
  }

  /// The next call: a token of each text that is being written, and of the prompts what the budget allows. Where a prompt is
  /// cut depends on itself alone.
  void gather() {
    ready_.clear();
    int64_t budget = layout_.budget;
    for (size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[i];
      if (!place.busy) continue;
      const auto number = static_cast<int64_t>(i);
      const Prompt& prompt = prompts_[place.text];
      if (place.drawn > 0) {
        sequences_.add(number, {&place.last, 1});
        ready_.push_back(number);
        continue;
      }
      const auto part =
          std::min(static_cast<int64_t>(prompt.ids.size() - place.read), prompt.options.chunk);
      if (part > budget) continue;
      budget -= part;
      sequences_.add(number, std::span(prompt.ids).subspan(place.read, static_cast<size_t>(part)));
      place.read += static_cast<size_t>(part);
      if (place.read == prompt.ids.size()) ready_.push_back(number);
    }
  }

  /// Passes the token on that was drawn, and ends the text where it is the last.
  void advance(Place& place) {
    const GenerationOptions& options = prompts_[place.text].options;
    ++place.drawn;
    const bool wanted = sink_.token(place.text, place.last);
    const bool stop_token = std::find(options.stop_tokens.begin(), options.stop_tokens.end(),
                                      place.last) != options.stop_tokens.end();
    if (wanted && !stop_token && place.drawn < options.max_tokens) return;
    place.busy = false;
    sink_.end(place.text, stop_token ? Ending::kStopToken
                          : wanted   ? Ending::kLength
                                     : Ending::kStopped);
  }

  std::span<const Prompt> prompts_;
  GenerationSink& sink_;
  Layout layout_;
  const Threads& threads_;
  Sequences sequences_;
  std::vector<Place> places_;
  std::vector<int64_t> ready_;  // places whose next token this call tells
  size_t next_ = 0;             // prompt to begin with
};

}  // namespace

Work generation_work(std::span<const Prompt> prompts, int64_t at_once) {
  return [layout = Layout(prompts), at_once](ops::Context& ctx, model::Model& model,
                                             Arena& activations) {
    Sequences sequences(ctx, model, activations, at_once, layout.capacity, layout.chunk);
    sequences.plan(layout.budget);
    sequences.plan(1);
  };
}

void generate(Session& session, std::span<const Prompt> prompts, int64_t at_once,
              GenerationSink& sink) {
  require(at_once >= 1, "generation of nothing");
  for (const Prompt& prompt : prompts) {
    require(!prompt.ids.empty() && prompt.options.max_tokens >= 1 && prompt.options.chunk >= 1,
            "generation without a prompt or a token");
  }
  if (!prompts.empty()) Batch(session, prompts, at_once, sink).run();
}

int64_t prompts_at_once(const ModelFiles& files, ops::Precision precision, int64_t longest_sequence,
                        std::span<const Prompt> prompts, int64_t most) {
  int64_t at_once = std::min(most, static_cast<int64_t>(prompts.size()));
  const uint64_t available = available_memory();
  while (at_once > 1 && Session::memory_for(files, precision, longest_sequence,
                                            generation_work(prompts, at_once)) > available) {
    --at_once;
  }
  return at_once;
}

int64_t longest_text(std::span<const Prompt> prompts) {
  int64_t longest = 0;
  for (const Prompt& prompt : prompts) {
    longest =
        std::max(longest, static_cast<int64_t>(prompt.ids.size()) + prompt.options.max_tokens);
  }
  return longest;
}

}  // namespace athanor::infer
