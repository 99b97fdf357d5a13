import Journal

extension MessageID {
  /// The verifier advertises and waits for wallets.
  static let verifierStarted = MessageID(
    "VerifierStarted", "126a4b4a1febe225d5c2be2d70d8642c", "The verifier waits for wallets",
    """
    The QR code is what earshot verifier show draws. Each wallet gets a new one.
    """)

  /// The verifier has stopped advertising.
  static let verifierStopped = MessageID(
    "VerifierStopped", "b84bedaf69ee69f51b43c6ef4deda512", "The verifier has left the air",
    """
    The verifier serves no wallet until it is started again: earshot verifier start.
    """)

  /// Storing credentials across a restart fails.
  static let storeDegraded = MessageID(
    "StoreDegraded", "3feba97f482e266e0a3c11b3fc7d7070", "Something is wrong with keeping credentials on the disk",
    """
    The message says what: the state directory is missing, read-only, full, or open to others; the disk fails or hangs;
    there are files that cannot be read or erased. The kiosk goes on serving. What is kept in memory only is lost if
    the service is restarted before that is mended. systemctl status earshotd says so for as long as it lasts.
    """)

  /// Credentials received before the start were restored.
  static let storeRestored = MessageID(
    "StoreRestored", "1d56dc07f6472cea181e8a833336a198", "Credentials from before the start are here again",
    """
    They were received, and not yet judged or not yet fetched, when the service ended. Each is a transfer again:
    earshot status lists them.
    """)

  /// There is no capacity for one more credential.
  static let storeFull = MessageID(
    "StoreFull", "5e0c1d7c6d934b3f8d1a4e0b9c2f7a61", "The kiosk is full",
    """
    As many credentials wait to be judged or fetched as KeptTransfers= or KeptBytes= allows, and no wallet is invited.
    List them with: earshot transfers
    Then judge each (earshot transfers accept NAME, earshot transfers reject NAME) and fetch what is accepted
    (earshot transfers get NAME).
    """)

  /// Only credentials that are judged while their phones are connected are stored.
  static let storeCrowded = MessageID(
    "StoreCrowded", "b1f6a2de0c7446c9a7d5e83f19b04c2e", "Many credentials wait for a verdict",
    """
    The rest of the capacity is for phones that wait for their verdict: a credential that is not judged while its phone
    is connected is erased, and the phone receives an error.
    List the credentials that wait with: earshot transfers
    Then judge each (earshot transfers accept NAME, earshot transfers reject NAME).
    """)

  /// The checker's verdict on a credential has arrived.
  static let credentialChecked = MessageID(
    "CredentialChecked", "0f3c8b5e7a914d62b8d1c46f2e7a9035", "A credential was checked",
    """
    The line has the verdict on the credential of transfer @EARSHOT_TRANSFER@ and the codes of its reasons, which
    docs/check.md explains. As long as the credential is stored, issuer and claims are shown by:
    earshot transfers show @EARSHOT_TRANSFER@
    An issuer that is not trusted may be added with: earshot-check trust add SOURCE.
    """)

  /// The checker gave no verdict on one credential.
  static let checkFailed = MessageID(
    "CheckFailed", "7d2e91c04b5f4a83a6e0f8d35c1b7296", "A credential could not be checked",
    """
    The checker crashed, was killed, took too long or sent something other than a verdict (@EARSHOT_ERROR@).
    The credential is undecided and stays, unless Decision=check and OnUndecided=reject are set.
    The checker's own lines are in journalctl -u 'earshot-check@*'.
    """)

  /// Checking is enabled, and there is no checker.
  static let checkerMissing = MessageID(
    "CheckerMissing", "c45a7f1e938b4d06b2f9e6713d80ac5b", "There is no credential checker",
    """
    Check=yes is set, and nothing listens at the socket of the checker. Credentials are received and stored, and
    each is undecided. Install the package earshot-check and run: systemctl enable --now earshot-check.socket
    The credentials are checked when the checker is there. Without Check=yes none is checked.
    """)

  /// All message IDs of the verifier only.
  static let verifier: [MessageID] = [
    .verifierStarted, .verifierStopped, .storeDegraded, .storeRestored, .storeFull, .storeCrowded,
    .credentialChecked, .checkFailed, .checkerMissing,
  ]
}
