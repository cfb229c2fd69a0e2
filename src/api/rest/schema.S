/* SPDX-License-Identifier: Apache-2.0 */
/* SG_SCHEMA_PATH is schema/openapi.json, given by the build. */
    .section .rodata
    .balign 16
    .globl sg_schema_openapi
    .hidden sg_schema_openapi
    .type sg_schema_openapi, @object
sg_schema_openapi:
    .incbin SG_SCHEMA_PATH
end:
    .size sg_schema_openapi, end - sg_schema_openapi
    .balign 8
    .globl sg_schema_openapi_bytes
    .hidden sg_schema_openapi_bytes
    .type sg_schema_openapi_bytes, @object
sg_schema_openapi_bytes:
    .quad end - sg_schema_openapi
    .size sg_schema_openapi_bytes, 8
    .section .note.GNU-stack, "", @progbits
