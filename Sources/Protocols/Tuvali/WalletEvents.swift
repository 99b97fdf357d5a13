import Common

extension WalletEngine {
  /// What happens to the wallet.
  public enum Event: Sendable {
    /// A program wants the transfer to begin.
    case start
    /// A program wants the transfer to end.
    case stop
    /// The scan saw an advertiser of one of the services. `token` is the radio's name for the advertiser.
    case sighted(token: UInt64, serviceData: [BluetoothUUID: [UInt8]])
    /// The link is up.
    case connected
    /// Discovery found these services, with their characteristics.
    case discovered([BluetoothUUID: Set<BluetoothUUID>])
    /// The ATT MTU was agreed on.
    case mtuChanged(Int)
    /// The verifier has answered a subscription.
    case subscribed(Characteristic)
    /// A write was answered or, without response, has left the radio. Writes end in the order in which they began.
    case written(Characteristic, WriteFailure?)
    /// The verifier sent a value.
    case notified(Characteristic, [UInt8])
    /// The link has ended.
    case disconnected
    /// The radio refused to scan or to connect, for this reason.
    case radioRefused(String)
    /// `Action.seal` was carried out.
    case sealed(Result<[UInt8], TuvaliError>)
    /// `deadline` has come.
    case timer
  }

  /// How the verifier refused a write.
  public enum WriteFailure: Sendable {
    /// All session slots of the verifier are in use.
    case busy
    /// The verifier has no capacity for one more credential.
    case noCapacity
    case other
  }

  /// What is to be done, in this order. Each action means the same wherever it stands.
  public enum Action: Sendable {
    case scan([BluetoothUUID])
    case stopScanning
    case connect(token: UInt64)
    case discover
    case exchangeMTU(Int)
    case subscribe(Characteristic, Dialect)
    case write([UInt8], to: Characteristic, Dialect, withResponse: Bool)
    /// Compresses and encrypts the credential, and reports `Event.sealed`.
    case seal(Sealing)
    case disconnect
    /// Tells the programs that watch the transfer.
    case tell(Notice)
  }

  /// What happened in a transfer.
  public enum Notice: Sendable, Equatable {
    /// The link is up, and is good enough for a transfer.
    case connected(mtu: Int)
    /// The verifier has taken Identify: SecureChannelEstablished.
    case secured
    /// The verifier has taken the size of the encrypted frame.
    case announced
    /// The verifier has received the whole frame: DataSent.
    case sent
    /// The verifier's verdict has come.
    case status(accepted: Bool)
    /// The transfer has failed, and the link is being ended.
    case failed(TuvaliError)
    /// The link has ended or never was. This is the last notice.
    case ended
  }

  /// The figures of a transfer.
  public struct Progress: Hashable, Sendable {
    public var mtu = 0
    public var bytesExpected = 0
    /// Bytes of the frame that were given to the radio; a chunk that is sent again does not count again.
    public var bytesSent = 0
    public var chunksExpected = 0
    /// Chunks that the last report named.
    public var chunksMissing = 0
    /// Reports that named missing chunks.
    public var failureFrames = 0
  }

  /// The times and limits that a wallet keeps.
  public struct Configuration: Sendable {
    /// The largest credential, in bytes of its text.
    public var credentialLimit = 4 << 20
    /// From the start to the sighting.
    public var scanTimeout = Duration.seconds(30)
    /// From the sighting to the answer to Identify.
    public var connectTimeout = Duration.seconds(10)
    /// From a report request to the next one, if no report comes.
    public var reportTimeout = Duration.seconds(5)
    /// From one sign of the verifier to the next.
    public var idleTimeout = Duration.seconds(60)
    /// From the sighting to the report that the verifier has received the whole frame, however lively the verifier is.
    public var transferTimeout = Duration.seconds(900)
    /// Chunks that the radio has at one time.
    public var window = 16
    /// Whether missing chunks are sent again as write requests. The iOS wallet does this, the Android wallet does not.
    public var resendsWithResponse = true
    /// Whether everything but chunks is sent as write requests. The iOS wallet does this, the Android wallet does not.
    public var controlsWithResponse = true

    public init() {}
  }
}
