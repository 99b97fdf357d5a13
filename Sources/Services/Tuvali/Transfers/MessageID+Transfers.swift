import Journal

extension MessageID {
  /// A transfer has begun: a wallet has connected to the kiosk, or a program gave the wallet a credential to send.
  public static let transferStarted = MessageID(
    "TransferStarted", "fff04e470c91a569030c1d3c1d7fa8d4", "A transfer has begun",
    """
    journalctl EARSHOT_TRANSFER=@EARSHOT_TRANSFER@ shows all messages about transfer @EARSHOT_TRANSFER@.
    If a phone makes more transfers in a minute than LinesPerPeer= allows, this message may be written after the start.
    """)

  /// A credential was received completely, and is stored.
  public static let transferReceived = MessageID(
    "TransferReceived", "1cd16c48ebddc5a73c6978e05e9433d7", "A credential was received",
    """
    The credential of transfer @EARSHOT_TRANSFER@ is complete, decrypted and UTF-8 text. It waits for Accept or Reject,
    and to be fetched.
    """)

  /// A transfer ended before the credential was complete.
  public static let transferFailed = MessageID(
    "TransferFailed", "2d51f9e5ebd24137c7abf282fce405e1", "A transfer has failed",
    """
    Transfer @EARSHOT_TRANSFER@ ended with @EARSHOT_ERROR@. The wallet may try again. If transfers fail often, the
    radio is disturbed or the wallet is too far away.
    """)

  /// The service refused a transfer: the peer violated the protocol or a limit.
  public static let transferRefused = MessageID(
    "TransferRefused", "d0ef6b7df1f49e757dfda75db0bc9b03", "A wallet was refused",
    """
    The wallet used an old QR code, did not identify itself in time, or found all session slots or links in use. It may
    try again.
    """)

  /// A credential was accepted or rejected.
  public static let transferDecided = MessageID(
    "TransferDecided", "36848d2c64725fb8afcc7139298aad71", "A credential was judged",
    """
    At the kiosk, a local program (or the service itself: Decision=accept, Decision=check) accepted or rejected
    the credential of transfer @EARSHOT_TRANSFER@. At the wallet, the verifier has sent its verdict.
    """)

  /// All message IDs shared by verifier and wallet.
  public static let transfers: [MessageID] = [
    .transferStarted, .transferReceived, .transferFailed, .transferRefused, .transferDecided,
  ]
}
