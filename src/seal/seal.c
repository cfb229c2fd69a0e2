/* SPDX-License-Identifier: Apache-2.0 */
#include "seal/seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "base/auto.h"
#include "base/banned.h"

enum { VERSION = 1, KEY = SG_SEAL_KEY_BYTES, NAME = 8, TAG = 16, NONCE = 12 };
enum { NAME_AT = 1, PUBLIC_AT = NAME_AT + NAME, CONTENT_AT = PUBLIC_AT + KEY };
enum { OVERHEAD = CONTENT_AT + TAG };

static void free_pkey(EVP_PKEY **k)
{
    EVP_PKEY_free(*k);
}
static void free_pkey_ctx(EVP_PKEY_CTX **c)
{
    EVP_PKEY_CTX_free(*c);
}
static void free_cipher_ctx(EVP_CIPHER_CTX **c)
{
    EVP_CIPHER_CTX_free(*c);
}
#define auto_pkey       __attribute__((cleanup(free_pkey))) EVP_PKEY
#define auto_pkey_ctx   __attribute__((cleanup(free_pkey_ctx))) EVP_PKEY_CTX
#define auto_cipher_ctx __attribute__((cleanup(free_cipher_ctx))) EVP_CIPHER_CTX

static int fail(const char *what, struct sg_err *err)
{
    return sg_fail(err, SG_INTERNAL, "libcrypto does not %s", what);
}

/* ---- keys ---- */

int sg_seal_make_key(struct sg_seal_key *ret_private, struct sg_err *err)
{
    size_t n = KEY;
    struct sg_seal_key k;
    auto_pkey *pair = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    if (!pair || EVP_PKEY_get_raw_private_key(pair, k.p, &n) != 1 || n != KEY)
        return fail("make a key", err);
    *ret_private = k;
    OPENSSL_cleanse(&k, sizeof k);
    return 0;
}

int sg_seal_public(const struct sg_seal_key *private, struct sg_seal_key *ret, struct sg_err *err)
{
    size_t n = KEY;
    struct sg_seal_key k;
    auto_pkey *pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, private->p, KEY);
    if (!pair || EVP_PKEY_get_raw_public_key(pair, k.p, &n) != 1 || n != KEY)
        return fail("find the public key", err);
    *ret = k;
    return 0;
}

static int name_of(const struct sg_seal_key *public, uint8_t ret[NAME], struct sg_err *err)
{
    uint8_t digest[32];
    unsigned n = 0;
    if (EVP_Digest(public->p, KEY, digest, &n, EVP_sha256(), NULL) != 1)
        return fail("know SHA-256", err);
    memcpy(ret, digest, NAME);
    return 0;
}

/* A public key that leads nowhere (all zero, of low order) is refused by libcrypto. */
static int agree(const struct sg_seal_key *private, const struct sg_seal_key *public,
                 uint8_t ret[KEY], struct sg_err *err)
{
    size_t n = KEY;
    auto_pkey *own = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, private->p, KEY);
    auto_pkey *other = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, public->p, KEY);
    auto_pkey_ctx *ctx = own ? EVP_PKEY_CTX_new(own, NULL) : NULL;
    if (!other || !ctx || EVP_PKEY_derive_init(ctx) != 1 ||
        EVP_PKEY_derive_set_peer(ctx, other) != 1 || EVP_PKEY_derive(ctx, ret, &n) != 1 || n != KEY)
        return sg_fail(err, SG_INVALID, "the public key is none");
    return 0;
}

/* The same at both ends: `box` is the public key that is in the box, `to` the one it is for. */
static int derive(const uint8_t shared[KEY], const struct sg_seal_key *box,
                  const struct sg_seal_key *to, uint8_t ret[KEY], struct sg_err *err)
{
    static char digest[] = "SHA256", info[] = "sandglass sealed box 1";
    uint8_t salt[2 * KEY], secret[KEY];
    memcpy(salt, box->p, KEY);
    memcpy(salt + KEY, to->p, KEY);
    memcpy(secret, shared, KEY);
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret, sizeof secret),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, sizeof salt),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, sizeof info - 1),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    const bool is_done = ctx && EVP_KDF_derive(ctx, ret, KEY, params) == 1;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    OPENSSL_cleanse(secret, sizeof secret);
    return is_done ? 0 : fail("know HKDF", err);
}

/* ---- the content ---- */

/* Each key is used once, so the nonce may be any. Returns false where the tag does not fit. */
static bool run_cipher(const uint8_t key[KEY], bool seals, struct sg_str context,
                       const uint8_t *from, int n, uint8_t *to, uint8_t tag[TAG])
{
    static const uint8_t nonce[NONCE];
    int got = 0, more = 0;
    auto_cipher_ctx *ctx = EVP_CIPHER_CTX_new();
    if (!ctx || EVP_CipherInit_ex(ctx, EVP_chacha20_poly1305(), NULL, key, nonce, seals) != 1 ||
        (!seals && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG, tag) != 1) ||
        EVP_CipherUpdate(ctx, NULL, &got, (const uint8_t *)context.p, (int)context.n) != 1 ||
        EVP_CipherUpdate(ctx, to, &got, from, n) != 1 ||
        EVP_CipherFinal_ex(ctx, to + got, &more) != 1)
        return false;
    return got + more == n &&
           (!seals || EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG, tag) == 1);
}

static int fill_box(const struct sg_seal_key *to, struct sg_str context, struct sg_str value,
                    uint8_t *box, struct sg_err *err)
{
    struct sg_seal_key own, box_public;
    uint8_t shared[KEY], key[KEY];
    int ret = sg_seal_make_key(&own, err);
    if (ret == 0)
        ret = sg_seal_public(&own, &box_public, err);
    if (ret == 0)
        ret = agree(&own, to, shared, err);
    if (ret == 0)
        ret = derive(shared, &box_public, to, key, err);
    if (ret == 0) {
        box[0] = VERSION;
        memcpy(box + PUBLIC_AT, box_public.p, KEY);
        ret = name_of(to, box + NAME_AT, err);
    }
    if (ret == 0 && !run_cipher(key, true, context, (const uint8_t *)value.p, (int)value.n,
                                box + CONTENT_AT, box + CONTENT_AT + value.n))
        ret = fail("seal", err);
    OPENSSL_cleanse(&own, sizeof own);
    OPENSSL_cleanse(shared, sizeof shared);
    OPENSSL_cleanse(key, sizeof key);
    return ret;
}

char *sg_seal(const struct sg_seal_key *to, struct sg_str context, struct sg_str value,
              struct sg_err *err)
{
    if (value.n > SG_SEAL_MAX) {
        (void)sg_fail(err, SG_EXHAUSTED, "a sealed value has at most %d bytes", SG_SEAL_MAX);
        return NULL;
    }
    sg_auto_free uint8_t *box = sg_alloc(OVERHEAD + value.n);
    if (fill_box(to, context, value, box, err) < 0)
        return NULL;
    char *text = sg_alloc((OVERHEAD + value.n + 2) / 3 * 4 + 1);
    (void)EVP_EncodeBlock((uint8_t *)text, box, (int)(OVERHEAD + value.n));
    return text;
}

/* ---- opening ---- */

/* The bytes of the text; what follows the last of them is not there. */
static uint8_t *read_box(const char *sealed, size_t *ret_n, struct sg_err *err)
{
    const size_t n = strlen(sealed);
    size_t pad = 0;
    while (pad < 2 && pad < n && sealed[n - 1 - pad] == '=')
        pad++;
    if (n % 4 == 0 && n / 4 * 3 >= OVERHEAD + pad && n / 4 * 3 - pad <= OVERHEAD + SG_SEAL_MAX) {
        sg_auto_free uint8_t *box = sg_alloc(n / 4 * 3);
        if (EVP_DecodeBlock(box, (const uint8_t *)sealed, (int)n) >= 0 && box[0] == VERSION) {
            *ret_n = n / 4 * 3 - pad;
            return sg_take_ptr(&box);
        }
    }
    (void)sg_fail(err, SG_INVALID, "this is no sealed box");
    return NULL;
}

bool sg_seal_is_for(const char *sealed, const struct sg_seal_key *public)
{
    size_t n;
    uint8_t name[NAME];
    sg_auto_free uint8_t *box = read_box(sealed, &n, NULL);
    return box && name_of(public, name, NULL) == 0 && memcmp(box + NAME_AT, name, NAME) == 0;
}

static int open_box(const struct sg_seal_key *private, const struct sg_seal_key *public,
                    struct sg_str context, uint8_t *box, size_t n, uint8_t *ret, struct sg_err *err)
{
    struct sg_seal_key from;
    uint8_t shared[KEY], key[KEY];
    memcpy(from.p, box + PUBLIC_AT, KEY);
    int got = agree(private, &from, shared, err);
    if (got == 0)
        got = derive(shared, &from, public, key, err);
    if (got == 0 &&
        !run_cipher(key, false, context, box + CONTENT_AT, (int)(n - OVERHEAD), ret, box + n - TAG))
        got = sg_fail(err, SG_INVALID, "the sealed box is damaged, or of something else");
    OPENSSL_cleanse(shared, sizeof shared);
    OPENSSL_cleanse(key, sizeof key);
    return got;
}

int sg_unseal(const struct sg_seal_key *private, struct sg_str context, const char *sealed,
              struct sg_buf *ret, struct sg_err *err)
{
    size_t n;
    uint8_t name[NAME];
    struct sg_seal_key public;
    sg_auto_free uint8_t *box = read_box(sealed, &n, err);
    if (!box || sg_seal_public(private, &public, err) < 0 || name_of(&public, name, err) < 0)
        return -1;
    if (memcmp(box + NAME_AT, name, NAME) != 0)
        return sg_fail(err, SG_DENIED, "sealed to another key");
    sg_auto_free uint8_t *content = sg_alloc(n - OVERHEAD + 1);
    int got = open_box(private, &public, context, box, n, content, err);
    if (got == 0)
        sg_buf_add(ret, content, n - OVERHEAD);
    OPENSSL_cleanse(content, n - OVERHEAD + 1);
    return got < 0 ? -1 : sg_buf_check(ret, "the sealed value", err);
}
