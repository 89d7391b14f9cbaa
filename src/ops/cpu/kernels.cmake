# Files that need an instruction set beyond the baseline say so in their name and are entered only after the CPU was asked.
# Their flags are named one by one: -march=native resolves wrongly on some virtual machines.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set(avx512bf16 ${avx512} -mavx512bf16)
  set(amx ${avx512bf16} -mamx-tile -mamx-bf16)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's own AVX-512 intrinsics start from _mm512_undefined_*, of which it then warns wherever they are inlined.
    foreach(isa avx512 avx512bf16 amx)
      list(APPEND ${isa} -Wno-uninitialized -Wno-maybe-uninitialized)
    endforeach()
  endif()
  foreach(isa avx2 avx512 avx512bf16 amx)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_${isa}.cpp)
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${${isa}}")
  endforeach()
endif()
