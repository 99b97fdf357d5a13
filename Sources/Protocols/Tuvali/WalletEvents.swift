import Common

extension WalletEngine {
  /// What the engine is told.
  public enum Event: Sendable {
    case start
    /// The local program wants it to end.
    case stop
    /// An advertiser of one of the services scanned for. `token` is the radio's name for it; service data by UUID.
    case sighted(token: UInt64, serviceData: [BluetoothUUID: [UInt8]])
    case connected
    /// The services that were found, with their characteristics.
    case discovered([BluetoothUUID: Set<BluetoothUUID>])
    case mtuChanged(Int)
    case subscribed(Characteristic)
    /// A write is done, in the order of the writes: answered, or (without response) on its way.
    case written(Characteristic, WriteFailure?)
    case notified(Characteristic, [UInt8])
    case disconnected
    /// The radio refused to scan or to connect, for this reason.
    case radioRefused(String)
    /// `Action.seal` was carried out.
    case sealed(Result<[UInt8], TuvaliError>)
    /// `deadline` has come.
    case timer
  }

  /// How a peer refused a write.
  public enum WriteFailure: Sendable { case busy, other }

  /// What the engine wants done, in this order.
  public enum Action: Sendable {
    case scan([BluetoothUUID])
    case stopScanning
    case connect(token: UInt64)
    case discover
    case exchangeMTU(Int)
    case subscribe(Characteristic, Dialect)
    case write([UInt8], to: Characteristic, Dialect, withResponse: Bool)
    case seal(Sealing)
    case disconnect
    case tell(Notice)
  }

  /// What happened, for those who watch the transfer.
  public enum Notice: Sendable, Equatable {
    /// Connected, with what it takes for a transfer.
    case connected(mtu: Int)
    /// SecureChannelEstablished.
    case secured
    /// The size of the encrypted frame is announced.
    case announced
    /// The verifier has all of it: DataSent.
    case sent
    case status(accepted: Bool)
    case failed(TuvaliError)
    /// Last of all: the link is gone or was never there.
    case ended
  }

  public struct Progress: Hashable, Sendable {
    public var mtu = 0
    public var bytesExpected = 0
    /// Bytes handed to the radio once; what is sent again does not count.
    public var bytesSent = 0
    public var chunksExpected = 0
    /// Of the last report.
    public var chunksMissing = 0
    /// Reports that named missing chunks.
    public var failureFrames = 0
  }

  public struct Configuration: Sendable {
    /// Largest credential, in bytes of its text.
    public var credentialLimit = 4 << 20
    public var scanTimeout = Duration.seconds(30)
    /// From the sighting to the answer to Identify.
    public var connectTimeout = Duration.seconds(10)
    /// From a report request to the next one, while no report comes.
    public var reportTimeout = Duration.seconds(5)
    /// Without a sign of the verifier.
    public var idleTimeout = Duration.seconds(60)
    /// From the sighting to the report that the verifier has it all, however lively the verifier is.
    public var transferTimeout = Duration.seconds(900)
    /// Chunks that are with the radio at one time.
    public var window = 16
    /// Whether chunks that were missing go again as write requests, as the iOS wallet does; the Android one does not.
    public var resendsWithResponse = true
    /// Whether everything but chunks goes as write requests, as with the iOS wallet; the Android one does not.
    public var controlsWithResponse = true

    public init() {}
  }
}
