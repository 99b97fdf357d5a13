extension MessageID {
  /// The service is up and its bus name is owned.
  public static let started = MessageID("Started", "26fe3d04de69688b21438e9761cf28cc")
  /// The service was asked to stop and is cleaning up.
  public static let stopping = MessageID("Stopping", "6f06adf93711db516f827cc99ceab8b4")

  /// The radio can be used.
  public static let radioReady = MessageID("RadioReady", "34542aa0e85927cb49e6182f38439483")
  /// There is no radio to use yet; the service waits for one.
  public static let radioWaiting = MessageID("RadioWaiting", "5d727c0e1976376af0102f83095fa440")
  /// The radio was there and is gone.
  public static let radioLost = MessageID("RadioLost", "23468551b981d066f47188de8ace057a")
  /// The radio works in part.
  public static let radioDegraded = MessageID("RadioDegraded", "10f9b8258aa2bc47605f0f3c3c8c489a")
  /// The adapter that the configuration names does not exist.
  public static let adapterMissing = MessageID("AdapterMissing", "4d40754d08b2f9c6bb3e175a7f6eb055")

  /// The verifier is on the air and waits for wallets.
  public static let verifierStarted = MessageID("VerifierStarted", "126a4b4a1febe225d5c2be2d70d8642c")
  /// The verifier left the air.
  public static let verifierStopped = MessageID("VerifierStopped", "b84bedaf69ee69f51b43c6ef4deda512")

  /// A wallet began to send a credential.
  public static let transferStarted = MessageID("TransferStarted", "fff04e470c91a569030c1d3c1d7fa8d4")
  /// A credential arrived whole.
  public static let transferReceived = MessageID("TransferReceived", "1cd16c48ebddc5a73c6978e05e9433d7")
  /// A transfer ended before the credential was whole.
  public static let transferFailed = MessageID("TransferFailed", "2d51f9e5ebd24137c7abf282fce405e1")
  /// A transfer was not begun: the peer broke the protocol or a limit.
  public static let transferRefused = MessageID("TransferRefused", "d0ef6b7df1f49e757dfda75db0bc9b03")
  /// The wallet was told whether its credential is accepted.
  public static let transferDecided = MessageID("TransferDecided", "36848d2c64725fb8afcc7139298aad71")

  /// A key or a value in the configuration cannot be used; its default is in force.
  public static let configurationProblem = MessageID("ConfigurationProblem", "b25b9efb4ce0942e999afd6ee0231b65")
  /// The configuration was read again.
  public static let configurationReloaded = MessageID("ConfigurationReloaded", "2d29e4169664e9b9587001e6020bf9df")

  /// Keys may reach the disk: the kernel does not lock or hide this process's memory.
  public static let memoryExposed = MessageID("MemoryExposed", "aa9bffcaff3f3cb664015ba1d46c6cad")
  /// Something is wrong with keeping credentials across a restart.
  public static let storeDegraded = MessageID("StoreDegraded", "3feba97f482e266e0a3c11b3fc7d7070")
  /// Credentials that were received before the start are here again.
  public static let storeRestored = MessageID("StoreRestored", "1d56dc07f6472cea181e8a833336a198")

  /// The connection to the message bus broke.
  public static let busLost = MessageID("BusLost", "709e8a41207ea9f9495baeb33f89338f")
  /// The connection to the message bus is back.
  public static let busBack = MessageID("BusBack", "158aa217cf5b834a7ce0004139dc3747")

  /// Every id there is; the catalog has one entry for each.
  public static let known: [MessageID] = [
    .started, .stopping,
    .radioReady, .radioWaiting, .radioLost, .radioDegraded, .adapterMissing,
    .verifierStarted, .verifierStopped,
    .transferStarted, .transferReceived, .transferFailed, .transferRefused, .transferDecided,
    .configurationProblem, .configurationReloaded,
    .memoryExposed, .storeDegraded, .storeRestored,
    .busLost, .busBack,
  ]
}
