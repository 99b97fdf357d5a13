import Common
import DBus
import Loop
import Transfers
import Tuvali

/// D-Bus adaptor of the wallet: `org.earshot.Wallet1`, and a `Credential1` object below it for each transfer.
@LoopActor
public final class WalletAdaptor {
  public nonisolated static let interfaceName = "org.earshot.Wallet1"
  public nonisolated static let path: ObjectPath = "/org/earshot/wallet"

  private let object: ExportedObject
  private let transfers: CredentialObjects

  public init(_ service: WalletService, on tree: ObjectTree, manager: ObjectPath) {
    let transfers = CredentialObjects(
      service.transfers, on: tree, below: Self.path, manager: manager, actions: Self.actions(service))
    self.transfers = transfers
    object = tree.export(
      Self.path, interfaces: [Self.interface(service) { [weak transfers] in transfers?.path(of: $0) ?? Self.path }],
      manager: manager)
  }

  /// Methods of `org.earshot.Credential1` for a transfer of the wallet.
  public static func actions(_ service: WalletService) -> CredentialActions {
    CredentialActions(
      decide: { _, _, _ in false }, taken: { _ in }, disconnect: { [weak service] in service?.disconnect($0) ?? false })
  }

  /// - Parameter path: returns the object path of a transfer.
  public static func interface(
    _ service: WalletService, path: @escaping @LoopActor (Transfer) -> ObjectPath
  ) -> Interface {
    Interface(
      interfaceName,
      documentation: "Sends credentials to verifiers nearby (MOSIP Tuvali).",
      audience: .everybody,
      methods: [
        Method(
          "Send", in: [Argument("uri", "s"), Argument("credential", "s")], out: [Argument("object", "o")],
          documentation:
            "Searches for the verifier whose QR code contains uri (blanks and line ends around it are "
            + "dropped) and sends it the credential. Returns at once with the object of the transfer, whose "
            + "State shows its progress.",
          errors: [.invalidArgs, .limitExceeded],
          returning: { call throws(DBusError) in
            guard let uri = call.arguments.first?.asString, let text = call.arguments.last?.asString else {
              throw .invalidArgs("Send takes a connection URI and a credential.")
            }
            return [.objectPath(path(try send(uri, Array(text.utf8), service)))]
          }),
        Method(
          "SendFile", in: [Argument("uri", "s"), Argument("credential", "h")], out: [Argument("object", "o")],
          documentation:
            "Like Send, with the credential in a regular file or a sealed memory file, which is read to its "
            + "end. For large credentials, and for texts with U+0000 or noncharacters in them.",
          errors: [.invalidArgs, .limitExceeded, .busy, .timeout],
          handler: { sendFile($0, service, path) }),
      ],
      properties: [
        Property(
          "ActiveTransfers", "u", documentation: "The number of transfers under way.",
          audience: .everybody,
          emits: .none,
          get: { .uint32(UInt32(clamping: service.active)) }),
        Property(
          "Counters", "a{st}",
          documentation: "Counters of events since the service started.",
          audience: .everybody, emits: .none,
          get: { counters(service) }),
      ])
  }

  private static func counters(_ service: WalletService) -> DBusValue {
    let counters = service.counters
    return .tallies([
      Tally("Begun", counters.begun), Tally("Accepted", counters.accepted), Tally("Rejected", counters.rejected),
      Tally("Undecided", counters.undecided), Tally("Failed", counters.failed), Tally("Refused", counters.refused),
    ])
  }

  /// Sends a credential from a file. Reading it may block, so it happens outside of the loop.
  private static func sendFile(
    _ call: MethodCall, _ service: WalletService, _ path: @escaping @LoopActor (Transfer) -> ObjectPath
  ) {
    guard let uri = call.arguments.first?.asString, let file = call.arguments.last?.asDescriptor else {
      return call.fail(.invalidArgs("SendFile takes a connection URI and a file."))
    }
    let limit = service.settings.engine.credentialLimit
    call.read(file, limit: limit) { result in
      do throws(DBusError) {
        call.reply(.objectPath(path(try send(uri, try credential(result, limit), service))))
      } catch {
        call.fail(error)
      }
    }
  }

  private static func credential(
    _ result: Result<[UInt8], DBusError>, _ limit: Int
  ) throws(DBusError) -> [UInt8] {
    do throws(DBusError) {
      return try result.get()
    } catch  where error.is(.limitExceeded) {
      throw .limitExceeded("TVW_UNK_001: The credential has more than \(limit) bytes.")
    }
  }

  private static func send(
    _ uri: String, _ text: [UInt8], _ service: WalletService
  ) throws(DBusError) -> Transfer {
    do throws(TuvaliError) {
      return try service.send(PastedText.trimmed(uri), text)
    } catch {
      throw DBusError(error)
    }
  }
}
