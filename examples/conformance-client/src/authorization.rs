//! Credentials for the scenarios that want a token, and how those must end that want none to be had.

use mrtr_auth::client::{
    ApplicationType, AuthError, ClientIdentity, DpopKey, EnterpriseManaged, OAuth, OAuthBuilder,
    PrivateKey, Registration, ResponseProblem, Secret,
};
use serde::Deserialize;

use crate::Failure;
use crate::person::Agreeable;

/// The document that the suite wants to see as a client's id.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// What the suite tells a client that is registered beforehand, or that needs nobody's consent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Given {
    client_id: Option<String>,
    client_secret: Option<Secret>,
    issuer: Option<String>,
    private_key_pem: Option<Secret>,
    signing_algorithm: Option<String>,
    idp_client_id: Option<String>,
    idp_id_token: Option<Secret>,
    idp_token_endpoint: Option<String>,
    valid_jwt: Option<Secret>,
}

impl Given {
    /// Credentials for a scenario, as a host would set them up that knows what the suite tells it.
    pub(crate) fn credentials(self, scenario: &str, url: &str) -> Result<OAuth, Failure> {
        let builder = match scenario {
            "auth/client-credentials-basic" | "auth/client-credentials-jwt" => {
                OAuth::for_client(url)
            }
            "auth/enterprise-managed-authorization" => {
                let idp_client = ClientIdentity::public(given(&self.idp_client_id)?);
                let endpoint = given(&self.idp_token_endpoint)?;
                let id_token = given(&self.idp_id_token)?;
                let managed = EnterpriseManaged::new(endpoint, idp_client, id_token);
                OAuth::enterprise_managed(url, managed)
            }
            "auth/wif-jwt-bearer" => OAuth::for_workload(url, given(&self.valid_jwt)?),
            "auth/dpop" | "auth/dpop-nonce" => person(url).dpop(DpopKey::generate()?),
            _ => person(url),
        };
        let builder = match self.identity()? {
            Some((Some(issuer), client)) => builder.registered_at(issuer, client),
            Some((None, client)) => builder.registered(client),
            None => builder,
        };
        Ok(builder.build()?)
    }

    /// The client that the suite registered beforehand, and where.
    fn identity(self) -> Result<Option<(Option<String>, ClientIdentity)>, Failure> {
        let Some(id) = self.client_id else {
            return Ok(None);
        };
        let client = match (self.client_secret, self.private_key_pem) {
            (Some(secret), _) => ClientIdentity::with_secret(id, secret),
            (None, Some(pem)) => {
                let algorithm = given(&self.signing_algorithm)?.parse()?;
                let key = PrivateKey::from_pem(pem.reveal().as_bytes(), algorithm)?;
                ClientIdentity::with_key(id, key)
            }
            (None, None) => ClientIdentity::public(id),
        };
        Ok(Some((self.issuer, client)))
    }
}

fn given<T: Clone>(value: &Option<T>) -> Result<T, Failure> {
    value
        .clone()
        .ok_or(Failure::Missing("value in the context"))
}

/// Somebody who agrees, with a client that any authorization server can get to know.
fn person(url: &str) -> OAuthBuilder {
    let registration = Registration::new("conformance-client", ApplicationType::Native);
    OAuth::for_user(url, Agreeable)
        .client_id_document(CLIENT_DOCUMENT)
        .registration(registration)
}

/// Why a scenario must end without a token; `None` where there must be one.
pub(crate) fn refusal(scenario: &str) -> Option<fn(&AuthError) -> bool> {
    let wrong_issuer: fn(&AuthError) -> bool =
        |error| matches!(error, AuthError::Response(ResponseProblem::Issuer));
    Some(match scenario {
        "auth/resource-mismatch" => |error| matches!(error, AuthError::ResourceMismatch { .. }),
        "auth/scope-retry-limit" => |error| matches!(error, AuthError::ScopesNotEnough { .. }),
        "auth/iss-supported-missing"
        | "auth/iss-wrong-issuer"
        | "auth/iss-unexpected"
        | "auth/iss-normalized" => wrong_issuer,
        "auth/metadata-issuer-mismatch" => {
            |error| matches!(error, AuthError::IssuerMismatch { .. })
        }
        _ => return None,
    })
}
