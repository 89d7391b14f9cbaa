// The header of a safetensors file: any bytes are a header or a refusal, and what is accepted covers the file exactly.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto header = athanor::checkpoint::parse_safetensors_header(bytes, size, "input");
    uint64_t end = header.bytes;
    for (const auto& entry : header.entries) {
      if (entry.begin != end) std::abort();
      end += entry.bytes;
      if (entry.type &&
          entry.bytes / size_of(*entry.type) != static_cast<uint64_t>(entry.numel())) {
        std::abort();
      }
    }
    if (end != size) std::abort();
  } catch (const athanor::Error& error) {
    if (error.code() != athanor::ExitCode::kData) std::abort();
  }
  return 0;
}
