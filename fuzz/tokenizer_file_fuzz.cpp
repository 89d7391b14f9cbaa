// Tokenizer files: SentencePiece models and tokenizer.json.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace athanor::data;  // NOLINT(google-build-using-namespace)
  const std::string file = (std::filesystem::temp_directory_path() /
                            ("athanor_fuzz_tokenizer_" + std::to_string(getpid())))
                               .string();
  std::ofstream(file, std::ios::binary)
      << std::string_view(reinterpret_cast<const char*>(bytes), size);
  try {
    const auto tokenizer = load_tokenizer(file);
    const auto ids = tokenizer->encode("the king \xC3\xA9\n \xE6\x97\xA5 of  a\tland");
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
    }
    const std::string text = tokenizer->decode(ids);
    if (valid_utf8_prefix(text) != text.size()) std::abort();
    tokenizer->files();
  } catch (const athanor::Error& error) {
    if (error.code() != athanor::ExitCode::kData) std::abort();
  }
  return 0;
}
