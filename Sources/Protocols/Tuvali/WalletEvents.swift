import Common

extension WalletEngine {
  /// Input of the wallet's engine: events of the radio, and requests of a program.
  public enum Event: Sendable {
    /// A local program starts the transfer.
    case start
    /// A local program ends the transfer.
    case stop
    /// Scan result of an advertiser of one of the services. `token` identifies the advertiser at the radio.
    case sighted(token: UInt64, serviceData: [BluetoothUUID: [UInt8]])
    /// The link to the verifier is up.
    case connected
    /// The verifier's services were discovered, each with its characteristics.
    case discovered([BluetoothUUID: Set<BluetoothUUID>])
    /// The ATT MTU of the link was negotiated.
    case mtuChanged(Int)
    /// The verifier has responded to a subscription.
    case subscribed(Characteristic)
    /// A write request was answered, or a write command has left the radio. Writes end in the order in which they
    /// began.
    case written(Characteristic, WriteFailure?)
    /// The verifier sent the value of a characteristic.
    case notified(Characteristic, [UInt8])
    /// The link to the verifier has ended.
    case disconnected
    /// The radio refused to scan or to connect, for this reason.
    case radioRefused(String)
    /// Result of encrypting the credential, which `Action.seal` requested.
    case sealed(Result<[UInt8], TuvaliError>)
    /// The time of `deadline` was reached.
    case timer
  }

  /// Reason why the verifier refused a write.
  public enum WriteFailure: Sendable {
    /// All session slots of the verifier are in use.
    case busy
    /// The verifier has no capacity for one more credential.
    case noCapacity
    case other
  }

  /// Output of the engine, to be performed in order. The meaning of an action does not depend on its position.
  public enum Action: Sendable {
    case scan([BluetoothUUID])
    case stopScanning
    case connect(token: UInt64)
    case discover
    case exchangeMTU(Int)
    case subscribe(Characteristic, Dialect)
    case write([UInt8], to: Characteristic, Dialect, withResponse: Bool)
    /// Compress and encrypt the credential, and report `Event.sealed`.
    case seal(Sealing)
    case disconnect
    /// Notify the programs that observe the transfer.
    case tell(Notice)
  }

  /// Notification of programs that observe the transfer.
  public enum Notice: Sendable, Equatable {
    /// The link is established, and its MTU is sufficient.
    case connected(mtu: Int)
    /// The verifier has accepted Identify: SecureChannelEstablished.
    case secured
    /// The verifier has accepted the size of the encrypted frame.
    case announced
    /// The verifier has received the whole frame: DataSent.
    case sent
    /// The verifier's verdict has arrived.
    case status(accepted: Bool)
    /// The transfer has failed, and the link is being ended.
    case failed(TuvaliError)
    /// The link has ended or was never established. This is the last notice.
    case ended
  }

  /// Figures of the transfer's progress, for D-Bus.
  public struct Progress: Hashable, Sendable {
    public var mtu = 0
    public var bytesExpected = 0
    /// Bytes of the frame that were passed to the radio. Resent chunks do not count.
    public var bytesSent = 0
    public var chunksExpected = 0
    /// Number of chunks that the verifier's last report named as missing.
    public var chunksMissing = 0
    /// Number of reports of the verifier that named missing chunks.
    public var failureFrames = 0
  }

  /// Time limits and other limits of a wallet.
  public struct Configuration: Sendable {
    /// Maximum credential, in bytes of its text.
    public var credentialLimit = 4 << 20
    /// Maximum time from the start to the scan result.
    public var scanTimeout = Duration.seconds(30)
    /// Maximum time from the scan result to the answer to Identify.
    public var connectTimeout = Duration.seconds(10)
    /// Time from a report request to the next one, if no report arrives.
    public var reportTimeout = Duration.seconds(5)
    /// Maximum time between packets of the verifier.
    public var idleTimeout = Duration.seconds(60)
    /// Maximum time from the scan result to the report that the verifier has received the whole frame.
    public var transferTimeout = Duration.seconds(900)
    /// Maximum chunks that wait in the radio at a time.
    public var window = 16
    /// Whether missing chunks are resent as write requests. The iOS wallet does this, the Android wallet does not.
    public var resendsWithResponse = true
    /// Whether everything but chunks is sent as write requests. The iOS wallet does this, the Android wallet does not.
    public var controlsWithResponse = true

    public init() {}
  }
}
