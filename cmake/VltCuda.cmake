# The CUDA backend's language and libraries (-DVLT_CUDA=ON): CUDA 12.4, cuDNN 9.16, cuBLASLt, and NCCL
# where there is one. Found in a toolkit's folder, in a distribution's, or in Python wheels:
# -DVLT_CUDA_ROOTS="/venv/lib/python3.11/site-packages/nvidia/cudnn;..." names folders to look in
# first, and each wheel keeps include/ and lib/ in its own. Included before the first target, since
# a target made before the architectures are set has none.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "machine code for 8.0 and 9.0; PTX for later")
endif()
set(VLT_CUDA_ROOTS "" CACHE STRING "folders with the include/ and lib/ of CUDA libraries, first choice")
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "VLT_CUDA: no nvcc found. Put it into PATH or give -DCMAKE_CUDA_COMPILER=..., "
                      "or configure without VLT_CUDA.")
endif()
enable_language(CUDA)
find_package(CUDAToolkit 12.4 REQUIRED)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")

# vlt::NAME from a header and a library; the wheels have no unversioned links. HINT: what to install.
function(vlt_cuda_library name header libraries hint)
  find_path(VLT_${name}_INCLUDE ${header} HINTS ${VLT_CUDA_ROOTS} ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  find_library(VLT_${name}_LIBRARY NAMES ${libraries} HINTS ${VLT_CUDA_ROOTS}
               ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  if(NOT VLT_${name}_INCLUDE OR NOT VLT_${name}_LIBRARY)
    if(hint)
      message(FATAL_ERROR "VLT_CUDA: ${name}: ${header} or ${libraries} not found. ${hint}")
    endif()
    return()
  endif()
  add_library(vlt::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(vlt::${name} PROPERTIES IMPORTED_LOCATION ${VLT_${name}_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${VLT_${name}_INCLUDE})
endfunction()

set(hint "Install it, or name its folder in -DVLT_CUDA_ROOTS=...")
vlt_cuda_library(cublasLt cublasLt.h "cublasLt;libcublasLt.so.13;libcublasLt.so.12" "${hint}")
vlt_cuda_library(cudnn cudnn_graph.h "cudnn;libcudnn.so.9" "${hint}")
vlt_version(cudnn ${VLT_cudnn_INCLUDE}/cudnn_version.h CUDNN PATCHLEVEL)
if(cudnn VERSION_LESS 9.16)              # cuda_graph_supports checks the library at run time
  message(FATAL_ERROR "VLT_CUDA: cuDNN ${cudnn} in ${VLT_cudnn_INCLUDE} is too old: 9.16 is needed, "
                      "since attention's gradient reads outside its tensors in CUDA graphs before "
                      "9.15.1, and 9.10.0 and 9.10.1 have other faults. Name the folder of a newer "
                      "one in -DVLT_CUDA_ROOTS=... (the wheel nvidia-cudnn-cu13 has one).")
endif()
vlt_cuda_library(nccl nccl.h "nccl;libnccl.so.2" "")
if(TARGET vlt::nccl)
  vlt_version(nccl ${VLT_nccl_INCLUDE}/nccl.h NCCL PATCH)
else()
  set(nccl "none")
endif()
string(REGEX REPLACE "-(real|virtual)" "" gpus "${CMAKE_CUDA_ARCHITECTURES}")
string(REPLACE ";" ", " gpus "${gpus}")
set(VLT_CUDA_TEXT                         # a part of the programs' --version
    "CUDA ${CUDAToolkit_VERSION}, cuDNN ${cudnn}, NCCL ${nccl}, for GPUs ${gpus}")
message(STATUS "CUDA backend: ${VLT_CUDA_TEXT}")
