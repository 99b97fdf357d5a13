import Journal

extension MessageID {
  /// The verifier advertises and waits for wallets.
  static let verifierStarted = MessageID(
    "VerifierStarted", "126a4b4a1febe225d5c2be2d70d8642c", "The verifier waits for wallets",
    """
    earshot verifier show draws the QR code. The code changes after each wallet.
    """)

  /// The verifier has stopped advertising, and accepts no wallets.
  static let verifierStopped = MessageID(
    "VerifierStopped", "b84bedaf69ee69f51b43c6ef4deda512", "The verifier has stopped advertising",
    """
    The verifier serves no wallet until it is started again: earshot verifier start.
    """)

  /// Storing credentials across a restart fails.
  static let storeDegraded = MessageID(
    "StoreDegraded", "3feba97f482e266e0a3c11b3fc7d7070", "Received credentials cannot be stored reliably on the disk",
    """
    The message names the problem: the state directory is missing, read-only, full, or open to others; the disk fails
    or hangs; or files cannot be read or erased. The verifier continues to serve wallets. Credentials that are stored in
    memory only are lost if the service restarts before the problem is solved. systemctl status earshotd shows the
    problem as long as it lasts.
    """)

  /// Credentials received before the start were restored.
  static let storeRestored = MessageID(
    "StoreRestored", "1d56dc07f6472cea181e8a833336a198", "Credentials from before the start were restored",
    """
    These credentials were received, but not yet judged or not yet fetched, when the service ended. Each is a transfer
    again: earshot status lists them.
    """)

  /// There is no capacity for one more credential.
  static let storeFull = MessageID(
    "StoreFull", "5e0c1d7c6d934b3f8d1a4e0b9c2f7a61", "The verifier has no capacity for another credential",
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
    The remaining capacity is reserved for phones that wait for their verdict. A credential that is not judged while its
    phone is connected is erased, and the phone receives an error.
    List the credentials that wait with: earshot transfers
    Then judge each (earshot transfers accept NAME, earshot transfers reject NAME).
    """)

  /// The checker's verdict on a credential has arrived.
  static let credentialChecked = MessageID(
    "CredentialChecked", "0f3c8b5e7a914d62b8d1c46f2e7a9035", "A credential was checked",
    """
    The message has the verdict on the credential of transfer @EARSHOT_TRANSFER@ and the codes of its reasons, which
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
    The checker's own messages: journalctl -u 'earshot-check@*'.
    """)

  /// Checking is enabled, and there is no checker.
  static let checkerMissing = MessageID(
    "CheckerMissing", "c45a7f1e938b4d06b2f9e6713d80ac5b", "The credential checker is not running",
    """
    Check=yes is set, and nothing listens at the socket of the checker. Credentials are received and stored, and
    each is undecided. Install the package earshot-check and run: systemctl enable --now earshot-check.socket
    The credentials are checked as soon as the checker runs. With Check=no the service checks no credentials.
    """)

  /// The history of transfers cannot be written, or can be written again.
  static let historyDegraded = MessageID(
    "HistoryDegraded", "0ddc063993e2b3cd01b0ea462baf6cb2", "The history of transfers cannot be stored reliably",
    """
    The message names the problem: the disk fails, is full or read-only, or the file was damaged and a new one was
    begun. Transfers are not affected. Results wait in memory until the disk works again; a restart before that loses
    them, and so do more than 1000 (counter HistoryLost).
    """)

  /// All message IDs of the verifier only.
  static let verifier: [MessageID] = [
    .verifierStarted, .verifierStopped, .storeDegraded, .storeRestored, .storeFull, .storeCrowded,
    .credentialChecked, .checkFailed, .checkerMissing, .historyDegraded,
  ]
}
