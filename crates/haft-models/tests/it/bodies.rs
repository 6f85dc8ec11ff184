//! Writes the bodies that the local server received to the build directory, where
//! `scripts/vendor-types` parses them with the vendors' types.

use std::{fs, path::Path};

use haft_models::Provider;

use crate::{
    kit::{PROVIDERS, model, run},
    server::Server,
    wire,
};

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test writes the bodies for the vendors' types")]
async fn bodies_of_every_provider_are_written_for_the_vendors_types() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("model-bodies");
    if directory.exists() {
        fs::remove_dir_all(&directory).unwrap();
    }
    let mut count = 0;
    for provider in PROVIDERS {
        for is_streaming in [true, false] {
            let answers = vec![
                wire::answer(provider, is_streaming, None),
                wire::answer(provider, is_streaming, Some("Oslo has 717710 people.")),
            ];
            let server = Server::start(answers).await;
            let mut model = model(provider, &server).streaming(is_streaming);
            if provider == Provider::Gemini {
                model = model.extra("generationConfig", serde_json::json!({"temperature": 0.5}));
            }
            run(model).await;
            for (n, request) in server.requests().iter().enumerate() {
                let form = if is_streaming { "streamed" } else { "whole" };
                let file = directory
                    .join(provider.dialect().to_string())
                    .join(format!("{provider}-{form}-{}.json", n + 1));
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, format!("{:#}\n", request.body)).unwrap();
                count += 1;
            }
        }
    }
    assert_eq!(count, 20);
}
