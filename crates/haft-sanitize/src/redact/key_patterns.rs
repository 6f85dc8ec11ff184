//! Patterns of well-known API keys and tokens. One line each: its id, its literal prefixes, the
//! regex, a matching example and a non-matching example.
//!
//! A pattern starts with one of its prefixes; redacted is the whole match, or its first group. `\b`
//! at the end of a pattern of fixed length excludes longer words. In examples `<36>` means
//! that many letters and digits, `<A16>` for capitals and digits, `<h32>` for hex digits, `<d10>`
//! for digits, so that this file contains nothing that looks like a key.
//!
//! To add one: choose prefixes that are rare in ordinary text, keep them at the start of the regex,
//! and choose the most similar harmless text as the non-matching example.

use super::{
    assignment::{FLAGS, PASSPHRASE_NAMES},
    pattern_checks::{assigned, has_digit, has_digit_or_sign, private_key},
    pattern_rule::{Kind, Rule},
};

const WORD: Rule = Rule {
    id: "",
    words: &[],
    shape: "",
    kind: Kind::Token,
    reach: 256,
    check: None,
    extend: None,
    parse: None,
    yes: "",
    no: "",
};
/// Keys that are found inside of longer words too. Their prefixes start with few letters (a, g, p,
/// s, x): a stream buffers the last letter of a word if it may start one.
const ANYWHERE: Rule = Rule { kind: Kind::Anywhere, ..WORD };
const LONG: Rule = Rule { reach: 2_048, ..WORD };
const LONGER: Rule = Rule { reach: 8_192, ..WORD };
const LINE: Rule = Rule { kind: Kind::Line, reach: 320, ..WORD };
const INSIDE: Rule = Rule {
    kind: Kind::Inside,
    reach: 320,
    check: Some(assigned),
    parse: Some(super::assignment::parse),
    ..WORD
};
const PASSPHRASE: Rule =
    Rule { check: None, parse: Some(super::assignment::parse_passphrase), ..INSIDE };
const NETRC: Rule = Rule { id: "netrc", kind: Kind::Line, reach: 640, ..WORD };
const BLOCK: Rule = Rule { kind: Kind::Line, reach: 16 << 10, extend: Some(private_key), ..WORD };

/// Every pattern. If two match the same text, the earlier one gives its id.
#[rustfmt::skip]
pub(super) static RULES: &[Rule] = &[
    // Private key blocks.
    Rule { id: "private-key", words: &["-----BEGIN"], shape: r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", yes: "-----BEGIN RSA PRIVATE KEY-----\n<64>\n<64>=\n-----END RSA PRIVATE KEY-----", no: "-----BEGIN CERTIFICATE-----\n<64>\n-----END CERTIFICATE-----", ..BLOCK },
    Rule { id: "age-key", words: &["AGE-SECRET-KEY-1"], shape: r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}\b", yes: "AGE-SECRET-KEY-1QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE", no: "AGE-SECRET-KEY-1QPZ", ..WORD },

    // Model providers.
    Rule { id: "anthropic-key", words: &["sk-ant-"], shape: r"sk-ant-[A-Za-z0-9_-]{24,}", yes: "sk-ant-api03-<90>", no: "sk-ant-hill", ..ANYWHERE },
    Rule { id: "openrouter-key", words: &["sk-or-"], shape: r"sk-or-v1-[0-9a-f]{48,}", yes: "sk-or-v1-<h64>", no: "sk-or-not", ..ANYWHERE },
    Rule { id: "openai-key", words: &["sk-"], shape: r"sk-[A-Za-z0-9_-]{20,}", check: Some(has_digit), yes: "sk-proj-<48>", no: "sk-folding-cube-animation-large", ..WORD },
    Rule { id: "google-api-key", words: &["AIza"], shape: r"AIza[A-Za-z0-9_-]{35,}", yes: "AIza<35>", no: "AIza<9>", ..ANYWHERE },
    Rule { id: "huggingface-token", words: &["hf_"], shape: r"hf_[A-Za-z0-9]{34,}", yes: "hf_<34>", no: "hf_hub_download", ..WORD },
    Rule { id: "groq-key", words: &["gsk_"], shape: r"gsk_[A-Za-z0-9]{40,}", yes: "gsk_<52>", no: "gsk_option", ..ANYWHERE },
    Rule { id: "perplexity-key", words: &["pplx-"], shape: r"pplx-[A-Za-z0-9]{40,}", yes: "pplx-<48>", no: "pplx-70b-online", ..ANYWHERE },
    Rule { id: "replicate-token", words: &["r8_"], shape: r"r8_[A-Za-z0-9]{37,}", yes: "r8_<37>", no: "r8_unorm", ..WORD },
    Rule { id: "xai-key", words: &["xai-"], shape: r"xai-[A-Za-z0-9]{60,}", yes: "xai-<80>", no: "xai-methods", ..WORD },
    Rule { id: "nvidia-key", words: &["nvapi-"], shape: r"nvapi-[A-Za-z0-9_-]{50,}", yes: "nvapi-<64>", no: "nvapi-driver", ..WORD },
    Rule { id: "cerebras-key", words: &["csk-"], shape: r"csk-[a-z0-9]{40,}", yes: "csk-<h48>", no: "csk-1", ..WORD },
    Rule { id: "tavily-key", words: &["tvly-"], shape: r"tvly-[A-Za-z0-9-]{24,}", check: Some(has_digit), yes: "tvly-dev-<32>", no: "tvly-search-documentation-page", ..WORD },
    Rule { id: "langsmith-key", words: &["lsv2_"], shape: r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}\b", yes: "lsv2_pt_<h32>_<h10>", no: "lsv2_pt_x", ..WORD },

    // Clouds.
    Rule { id: "aws-access-key", words: &["AKIA", "ASIA", "ABIA", "ACCA"], shape: r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", yes: "AKIAABCDEFGHIJKLMN23", no: "ASIANCOUNTRIESANDCITIES", ..ANYWHERE },
    Rule { id: "aws-secret-key", words: &["aws_secret", "aws-secret", "secretAccessKey", "secret_access_key"], shape: r#"[A-Za-z_-]{6,24}["']?\s{0,4}[=:]\s{0,4}["']?([A-Za-z0-9/+]{40,128})"#, yes: "aws_secret_access_key = <40>", no: "aws_secret_access_key = os.environ", ..LINE },
    Rule { id: "bedrock-key", words: &["ABSK"], shape: r"ABSK[A-Za-z0-9+/]{80,}={0,2}", yes: "ABSK<120>==", no: "ABSKETCH", ..WORD },
    Rule { id: "google-oauth-token", words: &["ya29."], shape: r"ya29\.[A-Za-z0-9_-]{20,}", yes: "ya29.<60>", no: "ya29.txt", ..LONG },
    Rule { id: "google-oauth-secret", words: &["GOCSPX-"], shape: r"GOCSPX-[A-Za-z0-9_-]{24,}", yes: "GOCSPX-<28>", no: "GOCSPX-x", ..ANYWHERE },
    Rule { id: "google-refresh-token", words: &["//0"], shape: r"//0[A-Za-z0-9_-]{40,}", yes: "1//0<60>", no: "http://0.example.org/", ..WORD },
    Rule { id: "azure-storage-key", words: &["AccountKey="], shape: r"AccountKey=([A-Za-z0-9+/]{80,}={0,2})", yes: "AccountKey=<86>==", no: "AccountKey=none", ..WORD },
    Rule { id: "azure-signature", words: &["&sig=", "?sig="], shape: r"[&?]sig=([A-Za-z0-9%+/=]{40,})", yes: "?sv=1&sig=<43>%3D", no: "?a=1&sig=abc", ..WORD },
    Rule { id: "azure-shared-key", words: &["SharedAccessKey="], shape: r"SharedAccessKey=([A-Za-z0-9+/]{40,}={0,2})", yes: "SharedAccessKey=<43>=", no: "SharedAccessKey=none", ..WORD },
    Rule { id: "digitalocean-token", words: &["dop_v1_", "doo_v1_", "dor_v1_"], shape: r"do[opr]_v1_[0-9a-f]{64}\b", yes: "dop_v1_<h64>", no: "dop_v1_x", ..WORD },
    Rule { id: "cloudflare-origin-key", words: &["v1.0-"], shape: r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}\b", yes: "v1.0-<h24>-<h146>", no: "v1.0-beta", ..WORD },
    Rule { id: "alibaba-key", words: &["LTAI"], shape: r"LTAI[A-Za-z0-9]{16,24}\b", check: Some(has_digit), yes: "LTAI5t<18>", no: "LTAI", ..WORD },
    Rule { id: "tencent-key", words: &["AKID"], shape: r"AKID[A-Za-z0-9]{32}\b", check: Some(has_digit), yes: "AKID<32>", no: "AKIDNEY", ..WORD },
    Rule { id: "heroku-key", words: &["HRKU-"], shape: r"HRKU-[A-Za-z0-9_-]{36,}", yes: "HRKU-<60>", no: "HRKU-x", ..WORD },
    Rule { id: "fly-token", words: &["fm1_", "fm2_", "fo1_"], shape: r"(?:fm[12]|fo1)_[A-Za-z0-9+/=_-]{40,}", yes: "fm2_<120>", no: "fm2_radio", ..LONG },
    Rule { id: "vault-token", words: &["hvs.", "hvb.", "hvr."], shape: r"hv[sbr]\.[A-Za-z0-9_-]{24,}", yes: "hvs.<90>", no: "hvs.rs", ..WORD },
    Rule { id: "terraform-token", words: &["atlasv1."], shape: r"atlasv1\.([A-Za-z0-9_=-]{50,})", yes: "Xy7.atlasv1.<64>", no: "x.atlasv1.y", ..WORD },
    Rule { id: "pulumi-token", words: &["pul-"], shape: r"pul-[0-9a-f]{40}\b", yes: "pul-<h40>", no: "pul-request", ..WORD },
    Rule { id: "doppler-token", words: &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa."], shape: r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{40,}", yes: "dp.pt.<43>", no: "dp.pt.x", ..WORD },
    Rule { id: "netlify-token", words: &["nfp_"], shape: r"nfp_[A-Za-z0-9]{36,}", yes: "nfp_<40>", no: "nfp_x", ..WORD },
    Rule { id: "render-key", words: &["rnd_"], shape: r"rnd_[A-Za-z0-9]{28,}", yes: "rnd_<32>", no: "rnd_seed", ..WORD },
    Rule { id: "tailscale-key", words: &["tskey-"], shape: r"tskey-[a-z]+-[A-Za-z0-9-]{16,}", yes: "tskey-auth-<12>-<32>", no: "tskey-auth", ..WORD },
    Rule { id: "databricks-token", words: &["dapi"], shape: r"dapi[0-9a-f]{32}(?:-\d)?\b", yes: "dapi<h32>", no: "dapier", ..WORD },
    Rule { id: "planetscale-token", words: &["pscale_"], shape: r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}", yes: "pscale_tkn_<43>", no: "pscale_tkn_x", ..ANYWHERE },
    Rule { id: "supabase-token", words: &["sbp_", "sb_secret_"], shape: r"(?:sbp_[0-9a-f]{40}\b|sb_secret_[A-Za-z0-9_-]{24,})", yes: "sbp_<h40>", no: "sbp_x", ..ANYWHERE },

    // Code hosts.
    Rule { id: "github-token", words: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], shape: r"gh[pousr]_[A-Za-z0-9]{36,}", yes: "ghp_<36>", no: "ghp_<12>", ..ANYWHERE },
    Rule { id: "github-pat", words: &["github_pat_"], shape: r"github_pat_[A-Za-z0-9_]{50,}", yes: "github_pat_<22>_<59>", no: "github_pat_x", ..ANYWHERE },
    Rule { id: "gitlab-token", words: &["glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-"], shape: r"gl(?:pat|ptt|dt|rt|cbt|ft|imt|agent|oas|soat)-[A-Za-z0-9_.-]{20,}", check: Some(has_digit), yes: "glpat-<20>", no: "glpat-token-format-description", ..ANYWHERE },
    Rule { id: "bitbucket-password", words: &["ATBB"], shape: r"ATBB[A-Za-z0-9]{28,}", yes: "ATBB<32>", no: "ATBB", ..WORD },
    Rule { id: "atlassian-token", words: &["ATATT3", "ATCTT3"], shape: r"AT[AC]TT3[A-Za-z0-9_=-]{60,}", yes: "ATATT3<180>", no: "ATATT3x", ..WORD },
    Rule { id: "sourcegraph-token", words: &["sgp_"], shape: r"sgp_[A-Za-z0-9_]{40,}", yes: "sgp_<40>", no: "sgp_x", ..ANYWHERE },
    Rule { id: "sonar-token", words: &["sqp_", "squ_", "sqa_"], shape: r"sq[pua]_[0-9a-f]{40}\b", yes: "squ_<h40>", no: "squ_x", ..ANYWHERE },
    Rule { id: "buildkite-token", words: &["bkua_"], shape: r"bkua_[0-9a-f]{40}\b", yes: "bkua_<h40>", no: "bkua_x", ..WORD },
    Rule { id: "circleci-token", words: &["CCIPAT_", "CCIPRJ_"], shape: r"CCIP(?:AT|RJ)_[A-Za-z0-9_]{40,}", yes: "CCIPAT_<22>_<h40>", no: "CCIPAT_x", ..WORD },

    // Package hosts.
    Rule { id: "npm-token", words: &["npm_"], shape: r"npm_[A-Za-z0-9]{36}\b", yes: "npm_<36>", no: "npm_config_registry", ..WORD },
    Rule { id: "pypi-token", words: &["pypi-AgE"], shape: r"pypi-AgE[A-Za-z0-9_-]{50,}", yes: "pypi-AgE<100>", no: "pypi-AgEx", ..ANYWHERE },
    Rule { id: "rubygems-key", words: &["rubygems_"], shape: r"rubygems_[0-9a-f]{48}\b", yes: "rubygems_<h48>", no: "rubygems_version", ..WORD },
    Rule { id: "nuget-key", words: &["oy2"], shape: r"oy2[a-z0-9]{43}\b", yes: "oy2<h43>", no: "oy2", ..WORD },
    Rule { id: "crates-token", words: &["cio"], shape: r"cio[A-Za-z0-9]{32}\b", check: Some(has_digit), yes: "cio<32>", no: "ciotola", ..WORD },
    Rule { id: "docker-token", words: &["dckr_pat_", "dckr_oat_"], shape: r"dckr_[po]at_[A-Za-z0-9_-]{24,}", yes: "dckr_pat_<27>", no: "dckr_pat_x", ..WORD },
    Rule { id: "clojars-token", words: &["CLOJARS_"], shape: r"CLOJARS_[0-9a-f]{60}\b", yes: "CLOJARS_<h60>", no: "CLOJARS_USERNAME", ..WORD },
    Rule { id: "artifactory-key", words: &["AKCp"], shape: r"AKCp[A-Za-z0-9]{60,}", yes: "AKCp<69>", no: "AKCp", ..WORD },

    // Payment and shops.
    Rule { id: "stripe-key", words: &["sk_live_", "sk_test_", "rk_live_", "rk_test_"], shape: r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}", yes: "sk_live_<24>", no: "sk_test_mode", ..WORD },
    Rule { id: "webhook-secret", words: &["whsec_"], shape: r"whsec_[A-Za-z0-9+/=]{24,}", yes: "whsec_<32>", no: "whsec_x", ..WORD },
    Rule { id: "square-token", words: &["sq0atp-", "sq0csp-"], shape: r"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}", yes: "sq0atp-<22>", no: "sq0atp-x", ..ANYWHERE },
    Rule { id: "braintree-token", words: &["access_token$"], shape: r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}\b", yes: "access_token$production$<h16>$<h32>", no: "access_token$x", ..WORD },
    Rule { id: "shopify-token", words: &["shpat_", "shpca_", "shppa_", "shpss_"], shape: r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", yes: "shpat_<h32>", no: "shpat_x", ..ANYWHERE },
    Rule { id: "plaid-token", words: &["access-sandbox-", "access-production-"], shape: r"access-(?:sandbox|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", yes: "access-production-<h8>-<h4>-<h4>-<h4>-<h12>", no: "access-production-systems", ..WORD },
    Rule { id: "flutterwave-key", words: &["FLWSECK"], shape: r"FLWSECK(?:_TEST)?-[0-9a-zA-Z]{12,}", yes: "FLWSECK-<32>-X", no: "FLWSECK-x", ..WORD },
    Rule { id: "easypost-key", words: &["EZAK", "EZTK"], shape: r"EZ[AT]K[A-Za-z0-9]{54}\b", yes: "EZAK<54>", no: "EZAK", ..WORD },
    Rule { id: "shippo-token", words: &["shippo_"], shape: r"shippo_(?:live|test)_[0-9a-f]{40}\b", yes: "shippo_live_<h40>", no: "shippo_live_x", ..ANYWHERE },

    // Chat and mail.
    Rule { id: "slack-token", words: &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.", "xoxc-", "xoxd-"], shape: r"xox[bpareascd][.-][A-Za-z0-9%+/=.-]{16,}", check: Some(has_digit), yes: "xoxb-<d12>-<d12>-<24>", no: "xoxb-token-goes-in-here", ..ANYWHERE },
    Rule { id: "slack-app-token", words: &["xapp-"], shape: r"xapp-\d-[A-Z0-9]+-\d+-[a-f0-9]{16,}", yes: "xapp-1-<A11>-<d13>-<h64>", no: "xapp-1-x", ..ANYWHERE },
    Rule { id: "slack-webhook", words: &["hooks.slack.com/"], shape: r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{20,})", yes: "https://hooks.slack.com/services/T<A8>/B<A8>/<24>", no: "https://hooks.slack.com/services/", ..WORD },
    Rule { id: "discord-webhook", words: &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"], shape: r"discord(?:app)?\.com/api/webhooks/(\d+/[A-Za-z0-9_-]{40,})", yes: "https://discord.com/api/webhooks/<d18>/<68>", no: "https://discord.com/api/webhooks/1", ..WORD },
    Rule { id: "teams-webhook", words: &["webhook.office.com/webhookb2/"], shape: r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{60,})", yes: "https://x.webhook.office.com/webhookb2/<h32>@<h32>/IncomingWebhook/<h32>", no: "https://x.webhook.office.com/webhookb2/", ..WORD },
    Rule { id: "telegram-token", words: &["api.telegram.org/bot"], shape: r"api\.telegram\.org/bot(\d{6,12}:[A-Za-z0-9_-]{30,})", yes: "https://api.telegram.org/bot<d10>:<35>/getMe", no: "https://api.telegram.org/bot", ..WORD },
    Rule { id: "sendgrid-key", words: &["SG."], shape: r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,}", yes: "SG.<22>.<43>", no: "SG.html", ..WORD },
    Rule { id: "mailgun-key", words: &["key-"], shape: r"key-[0-9a-f]{32}\b", yes: "key-<h32>", no: "key-value", ..WORD },
    Rule { id: "brevo-key", words: &["xkeysib-", "xsmtpsib-"], shape: r"x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}\b", yes: "xkeysib-<h64>-<16>", no: "xkeysib-x", ..ANYWHERE },
    Rule { id: "mapbox-token", words: &["sk.eyJ"], shape: r"sk\.eyJ[A-Za-z0-9_-]{30,}\.[A-Za-z0-9_-]{16,}", yes: "sk.eyJ<60>.<22>", no: "sk.eyJ", ..WORD },

    // Monitoring, writing, design.
    Rule { id: "grafana-token", words: &["glc_", "glsa_"], shape: r"(?:glc_[A-Za-z0-9+/=]{32,}|glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b)", yes: "glsa_<32>_<h8>", no: "glsa_x", ..ANYWHERE },
    Rule { id: "newrelic-key", words: &["NRAK-", "NRII-", "NRIQ-"], shape: r"NR(?:AK|II|IQ)-[A-Za-z0-9_-]{24,}", yes: "NRAK-<A27>", no: "NRAK-x", ..WORD },
    Rule { id: "sentry-token", words: &["sntrys_", "sntryu_"], shape: r"sntry(?:u_[0-9a-f]{64}\b|s_eyJ[A-Za-z0-9+/=_-]{40,})", yes: "sntryu_<h64>", no: "sntryu_x", ..LONG },
    Rule { id: "dynatrace-token", words: &["dt0c01.", "dt0s01.", "dt0s16."], shape: r"dt0[cs]\d\d\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}\b", yes: "dt0c01.<A24>.<A64>", no: "dt0c01.x", ..WORD },
    Rule { id: "notion-token", words: &["ntn_"], shape: r"ntn_[A-Za-z0-9]{40,}", yes: "ntn_<46>", no: "ntn_x", ..WORD },
    Rule { id: "linear-key", words: &["lin_api_", "lin_oauth_"], shape: r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}", yes: "lin_api_<40>", no: "lin_api_version", ..WORD },
    Rule { id: "figma-token", words: &["figd_"], shape: r"figd_[A-Za-z0-9_-]{36,}", yes: "figd_<40>", no: "figd_x", ..WORD },
    Rule { id: "postman-key", words: &["PMAK-"], shape: r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}\b", yes: "PMAK-<h24>-<h34>", no: "PMAK-x", ..ANYWHERE },
    Rule { id: "contentful-token", words: &["CFPAT-"], shape: r"CFPAT-[A-Za-z0-9_-]{40,}", yes: "CFPAT-<43>", no: "CFPAT-x", ..WORD },
    Rule { id: "typeform-token", words: &["tfp_"], shape: r"tfp_[A-Za-z0-9_.-]{40,}", yes: "tfp_<44>_<14>", no: "tfp_x", ..WORD },
    Rule { id: "dropbox-token", words: &["sl."], shape: r"sl\.(?:u\.)?[A-Za-z0-9_-]{120,}", yes: "sl.<140>", no: "sl.html", ..LONG },
    Rule { id: "onepassword-token", words: &["ops_eyJ"], shape: r"ops_eyJ[A-Za-z0-9+/=_-]{100,}", yes: "ops_eyJ<300>", no: "ops_eyJx", ..LONG },
    Rule { id: "prefect-key", words: &["pnu_"], shape: r"pnu_[A-Za-z0-9]{36}\b", yes: "pnu_<36>", no: "pnu_x", ..WORD },
    Rule { id: "readme-key", words: &["rdme_"], shape: r"rdme_[a-z0-9]{60,}", yes: "rdme_<h70>", no: "rdme_x", ..WORD },

    // Generic formats.
    Rule { id: "jwt", words: &["eyJ"], shape: r"eyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,}|[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{16,})", yes: "eyJ<30>.eyJ<60>.<43>", no: "eyJ<60>", ..LONGER },
    Rule { id: "url-token", words: &["://"], shape: r"://([A-Za-z0-9_~=-]{16,160}(?::x-oauth-basic)?)@", check: Some(has_digit), yes: "https://<24>@git.example.org/a", no: "https://a-long-name-of-a-person@example.org", ..WORD },
    Rule { id: "url-password", words: &["://"], shape: r"://[A-Za-z0-9._~%!$&'()*+,;=-]{0,64}:([A-Za-z0-9._~%!$&'()*+,;=:@^|-]{1,128})@", yes: "postgres://app:s3cr3t@db/x", no: "https://example.org:8080/a@b", ..WORD },
    Rule { id: "bearer", words: &["bearer"], shape: r"(?i:bearer)\s{1,4}([A-Za-z0-9._~+/=-]{16,})", check: Some(has_digit), yes: "Authorization: Bearer <40>", no: "bearer authentication-mechanisms", ..LINE },
    Rule { id: "authorization", words: &["authorization"], shape: r#"(?i:authorization)[\\"']{0,3}\s{0,4}[:=]\s{0,4}[\\"']{0,3}(?:(?i:basic|digest|token|apikey|bearer)\s{1,4})?([A-Za-z0-9._~+/=-]{12,})"#, check: Some(has_digit), yes: "Authorization: Basic <20>==", no: "authorization: required-for-all", ..LINE },
    Rule { id: "assigned", words: &["password", "passwd", "passphrase", "api_key", "api-key", "apikey", "secret", "access_key", "access-key", "accesskey", "private_key", "private-key", "privatekey", "access_token", "access-token", "accesstoken", "auth_token", "auth-token", "authtoken", "refresh_token", "refresh-token", "refreshtoken", "api_token", "api-token", "apitoken", "session_token", "bot_token", "private_token", "security_token", "oauth_token", "id_token"], shape: ASSIGNED, yes: "DB_PASSWORD=hunter2x", no: "password = get_password(user1)", ..INSIDE },
    Rule { id: "assigned", words: &["token", "pwd"], shape: ASSIGNED, check: Some(assigned), parse: Some(super::assignment::parse), yes: "token: '<24>'", no: "next_page_token=<24>", ..LINE },
    Rule { id: "assigned", words: FLAGS, check: Some(assigned), parse: Some(super::assignment::parse_flag), yes: "--password hunter2x", no: "--password-file hunter2x", ..LINE },
    Rule { id: "assigned", words: PASSPHRASE_NAMES, yes: "password = 'correct horse battery staple'", no: "password = 'must have 8 characters'", ..PASSPHRASE },
    Rule { words: &["machine"], shape: r"(?i:machine)\s{1,8}[^\s\[\]{}]{1,128}\s{1,8}(?i:login)\s{1,8}[^\s\[\]{}]{1,128}\s{1,8}(?i:password)\s{1,8}([^\s\[\]{}\\]{3,128})", yes: "machine h login ada password correcthorse", no: "machine h login ada", ..NETRC },
    Rule { words: &["machine"], shape: r"(?i:machine)\s{1,8}[^\s\[\]{}]{1,128}\s{1,8}(?i:password)\s{1,8}([^\s\[\]{}\\]{3,128})", check: Some(has_digit_or_sign), yes: "machine h password hunter2x", no: "a machine learning password checker", ..NETRC },
    Rule { words: &["login"], shape: r"(?i:login)\s{1,8}[^\s\[\]{}]{1,128}\s{1,8}(?i:password)\s{1,8}([^\s\[\]{}\\]{3,128})", check: Some(has_digit_or_sign), yes: "default login anonymous password hunter2x", no: "login with password authentication", ..NETRC },
];

/// A secret-like name, an assignment sign, and a value, quoted or not. `assigned` parses it by
/// hand.
pub(super) const ASSIGNED: &str = r#"(?i:password|passwd|passphrase|pwd|secret|token|(?:api|access|private)[_-]?key|(?:access|auth|refresh|api|session|bot|private|security|oauth|id)[_-]?token)(?i:[_-](?:key|value|token|hash|salt|access[_-]key))?[\\"'`]{0,3}(?:\s{0,4}:\s{0,2}&?[A-Za-z][A-Za-z<>&]{0,20})?\s{0,4}(?:=>|:=|[=:])\s{0,4}(?:[\\]?["'`]([^"'`\\\r\n\[\]<>{}\s]{6,200})|([A-Za-z0-9!#%*+./@^_~|-][A-Za-z0-9!#$%*+./:=?@^_~|-]{5,199}))"#;
