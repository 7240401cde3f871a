# What `cmake --install` and CPack put where: the program, the pages with the headless worker, the
# small model, the manual, completions and the systemd unit. `./dev package` makes what is optional
# here before it packs: pages (web/dist), model (packages/) and texts (build/package/texts).
include(GNUInstallDirs)

set(WEFT_TEXTS ${CMAKE_SOURCE_DIR}/build/package/texts)

# A tarball and the npm package bring libraries of their own in lib/weft; a .deb leaves that folder
# empty. Libraries of libraries are found there, too, which a newer RUNPATH would not do.
set_target_properties(weft PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/weft")
target_link_options(weft PRIVATE -Wl,--disable-new-dtags)

set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # the program is all that is installed of what compiles
install(TARGETS weft RUNTIME DESTINATION bin)
install(DIRECTORY web/dist/ DESTINATION share/weft/web OPTIONAL)
install(DIRECTORY packages/weft-tiny DESTINATION share/weft/models OPTIONAL)
install(FILES ${WEFT_TEXTS}/weft.1.gz DESTINATION share/man/man1 OPTIONAL)
install(FILES ${WEFT_TEXTS}/weft.bash DESTINATION share/bash-completion/completions RENAME weft
        OPTIONAL)
install(FILES ${WEFT_TEXTS}/_weft DESTINATION share/zsh/vendor-completions OPTIONAL)
install(FILES packaging/weft.service DESTINATION lib/systemd/system)
install(FILES packaging/weft.env DESTINATION share/weft)
install(FILES README.md CHANGELOG.md SECURITY.md DESTINATION share/doc/weft)
install(FILES LICENSE DESTINATION share/doc/weft RENAME copyright)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR weft)
set(CPACK_PACKAGE_CONTACT "the authors of weft <weft@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "One language model over all of your devices")
set(CPACK_PACKAGE_DESCRIPTION
    "weft runs a language model that is too big for any one device on all of them
together. Devices join by opening a web page; the server plans who computes
what and answers over a chat page and an OpenAI-compatible API.")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_SOURCE_DIR}/build/package)
set(CPACK_PACKAGE_FILE_NAME weft)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# What Debian 12 and Ubuntu 22.04 read, and packed in seconds where xz takes a minute.
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "passwd")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nodejs (>= 20), libpq5 (>= 14)")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/packaging/postinst;${CMAKE_SOURCE_DIR}/packaging/prerm"
    "${CMAKE_SOURCE_DIR}/packaging/postrm")
include(CPack)
