// Text containers: .jsonl and .txt. The first byte chooses which.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/documents.h"
#include "data/utf8.h"

using athanor::data::Document;
using athanor::data::DocumentFiles;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const std::string_view content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const std::string file = (std::filesystem::temp_directory_path() /
                            ("athanor_fuzz_documents_" + std::to_string(getpid()) +
                             (bytes[0] % 2 == 0 ? ".jsonl" : ".txt")))
                               .string();
  std::ofstream(file, std::ios::binary) << content;
  try {
    const auto reader = DocumentFiles(file).read();
    for (Document document; reader->next(document);) {
      if (athanor::data::valid_utf8_prefix(document.text) != document.text.size()) std::abort();
    }
  } catch (const athanor::Error& error) {
    if (error.code() != athanor::ExitCode::kData) std::abort();
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
