# cmake --install: the programs, libvlat with header and pkg-config file, manual pages and
# completions (scripts/pages makes them from the flag tables), and scripts/vlat.py. cpack makes a
# .deb of the same files, whose dependencies dpkg-shlibdeps finds.
include(GNUInstallDirs)
set(programs vlat vtrain)
if(VLT_FFMPEG)
  list(APPEND programs vprep vdecode)
endif()
set(pages ${CMAKE_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/man1/vlt.1
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/pages ${CMAKE_BINARY_DIR} ${pages}
  DEPENDS ${programs} ${CMAKE_SOURCE_DIR}/scripts/pages ${CMAKE_SOURCE_DIR}/scripts/pages.awk
  COMMENT "Writing manual pages and completions" VERBATIM)
add_custom_target(pages ALL DEPENDS ${pages}/man1/vlt.1)

# The file finds its folders from its own place, so that an installed tree may be moved.
file(RELATIVE_PATH VLT_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_SOURCE_DIR}/cmake/vlat.pc.in ${CMAKE_BINARY_DIR}/vlat.pc @ONLY)

# pip install . (pyproject.toml) takes the programs and the module alone.
if(SKBUILD)
  install(TARGETS ${programs} RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
  install(FILES scripts/vlat.py DESTINATION ${SKBUILD_PLATLIB_DIR} COMPONENT python)
endif()

install(TARGETS ${programs} RUNTIME)
install(TARGETS libvlat LIBRARY)
install(FILES ${VLT_LIBVLAT_ARCHIVE} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES formats/libvlat/vlat.h TYPE INCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/vlat.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY ${pages}/man1/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(DIRECTORY ${pages}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(DIRECTORY ${pages}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(DIRECTORY ${pages}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES scripts/vlat.py DESTINATION ${CMAKE_INSTALL_DATADIR}/vlt)
# Pages and pictures lie as in the sources, so that their links lead somewhere.
install(FILES README.md CONTRIBUTING.md LICENSE examples/read.c TYPE DOC)
install(DIRECTORY docs TYPE DOC PATTERN bench EXCLUDE)
install(FILES packaging/copyright TYPE DOC)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME vlt)
set(CPACK_PACKAGE_VENDOR "the authors of vlt")
set(CPACK_PACKAGE_CONTACT "${CPACK_PACKAGE_VENDOR}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains video and image diffusion transformers")
set(CPACK_PACKAGE_DESCRIPTION "vprep decodes media, runs the VAE and the text encoders once, and \
writes a latent dataset; vtrain trains a LoRA or a whole transformer on the dataset; vlat looks \
after datasets; vdecode makes pictures. libvlat reads datasets from other programs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# CUDA's libraries may lie where the loader does not look, and belong to no package. The .deb then
# does not depend on them.
foreach(library ${VLT_cublasLt_LIBRARY} ${VLT_cudnn_LIBRARY} ${VLT_nccl_LIBRARY}
        ${CUDA_cudart_LIBRARY})
  cmake_path(GET library PARENT_PATH folder)
  if(folder AND NOT folder IN_LIST CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS)
    list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${folder})
  endif()
endforeach()
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
    "ffmpeg, libcjson-dev, libxxhash-dev, python3-lmdb, python3-numpy")
include(CPack)
