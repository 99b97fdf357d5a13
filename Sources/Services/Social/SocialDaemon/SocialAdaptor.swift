import ASN
import DBus
import Loop
import Social

/// The D-Bus adaptor of the social server: `org.earshot.Social1`.
@LoopActor
final class SocialAdaptor {
  nonisolated static let interfaceName = "org.earshot.Social1"
  nonisolated static let path: ObjectPath = "/org/earshot/social"
  nonisolated static let manager: ObjectPath = "/org/earshot"

  private let object: ExportedObject

  init(_ control: SocialControl, _ sessions: SessionControl, on tree: ObjectTree) {
    tree.exportManager(Self.manager)
    let object = tree.export(Self.path, interfaces: [Self.interface(control, sessions)], manager: Self.manager)
    self.object = object
    control.onChange = { [weak object] in
      object?.changed("Users", "Blobs", "Bytes", "Trouble")
    }
  }

  /// The D-Bus interface of the server.
  ///
  /// - Parameters:
  ///   - control: nil if the interface is only described.
  ///   - sessions: nil if the interface is only described.
  static func interface(_ control: SocialControl?, _ sessions: SessionControl? = nil) -> Interface {
    Interface(
      interfaceName,
      documentation:
        "The social server (ASN). The caller acts as the administrator, or as the service if there is no administrator. A "
        + "reference names blobs as in the protocol: a sum, a user, a name, each with abbreviations and wildcards.",
      methods: reading(control) + writing(control) + keeping(control) + connecting(sessions),
      properties: properties(control))
  }

  /// Makes a method that answers later.
  private static func method(
    _ control: SocialControl?, _ name: String, in input: [Argument] = [], out: [Argument] = [], _ documentation: String,
    errors: [DBusError.Name] = [],
    _ body: @escaping @LoopActor (SocialControl, MethodCall, @escaping SocialControl.Answer) throws(DBusError) -> Void
  ) -> Method {
    Method(
      name, in: input, out: out, documentation: documentation, errors: errors + [.failed],
      handler: { [weak control] call in
        guard let control else { return call.fail(.notReady("The server is stopping.")) }
        do throws(DBusError) {
          try body(control, call) { result in
            switch result {
            case .success(let values): call.reply(values)
            case .failure(let error): call.fail(error)
            }
          }
        } catch {
          call.fail(error)
        }
      })
  }

  private static func string(_ call: MethodCall, _ index: Int) throws(DBusError) -> String {
    guard index < call.arguments.count, let text = call.arguments[index].asString, !text.utf8.contains(0) else {
      throw .invalidArgs("\(call.member) takes a text as its argument \(index + 1).")
    }
    return text
  }

  private static func reading(_ control: SocialControl?) -> [Method] {
    [
      method(
        control, "Get", in: [Argument("reference", "s")], out: [Argument("content", "h")],
        "Returns the contents of the blobs, concatenated, in a sealed memory file. The call fails if these are longer than both "
          + "AnswerSize= and BlobSize=.",
        errors: [.invalidArgs, .notFound, .denied]
      ) { control, call, answer throws(DBusError) in
        control.get(try string(call, 0), then: answer)
      },
      method(
        control, "List", in: [Argument("reference", "s"), Argument("after", "s"), Argument("limit", "u")],
        out: [Argument("names", "as")],
        "Returns the names that the reference matches, in the order of their bytes; an empty reference is the operator's own "
          + "directory. Only names behind after are returned, at most limit and at most 16384 of them. With the limit 0 the "
          + "call returns all names, and fails if there are more than 16384.",
        errors: [.invalidArgs, .notFound, .limitExceeded]
      ) { control, call, answer throws(DBusError) in
        guard let limit = call.arguments.last?.asUInt32 else { throw .invalidArgs("List takes a number.") }
        control.list(try string(call, 0), after: try string(call, 1), limit: Int(limit), then: answer)
      },
    ]
  }

  private static func writing(_ control: SocialControl?) -> [Method] {
    [
      method(
        control, "Put", in: [Argument("owner", "s"), Argument("name", "s"), Argument("content", "h")],
        out: [Argument("sum", "s")],
        "Stores a blob in the directory of a user, and pushes it to the sessions that may receive it. The user is named by at "
          + "least 4 digits of its key, and an empty owner is the operator. Returns the blob's sum when the blob is durable.",
        errors: [.invalidArgs, .notFound, .denied, .busy, .limitExceeded, .timeout]
      ) { control, call, answer throws(DBusError) in
        let (owner, name) = (try string(call, 0), try string(call, 1))
        guard let file = call.arguments.last?.asDescriptor else { throw .invalidArgs("Put takes a file.") }
        call.read(file, limit: control.blobLimit) { [weak control] result in
          switch result {
          case .failure(let error): answer(.failure(error))
          case .success(let content): control?.put(owner, name, content, then: answer)
          }
        }
      },
      method(
        control, "Say", in: [Argument("owner", "s"), Argument("text", "s")], out: [Argument("sum", "s")],
        "Sends a message to a user or a forum, named by at least 4 digits of its key. Returns the message's sum when it is "
          + "durable.",
        errors: [.invalidArgs, .notFound, .denied]
      ) { control, call, answer throws(DBusError) in
        let (owner, text) = (try string(call, 0), try string(call, 1))
        guard !owner.isEmpty, !text.isEmpty else { throw .invalidArgs("Say takes a user and a text.") }
        control.put(owner, "", Array(text.utf8), then: answer)
      },
      method(
        control, "Remove", in: [Argument("reference", "s")], out: [Argument("sum", "s")],
        "Removes the blobs that the reference matches, and returns the sum of the removal. Removing the removal before "
          + "Collect brings the blobs back.",
        errors: [.invalidArgs, .notFound, .denied]
      ) { control, call, answer throws(DBusError) in
        control.remove(try string(call, 0), then: answer)
      },
      method(
        control, "NewUser", in: [Argument("kind", "s")], out: [Argument("keys", "h")],
        "Creates a user of the kind actual, forum, bridge or place, and returns its keys as YAML in a sealed memory file. The "
          + "server does not store the secret keys.",
        errors: [.invalidArgs, .denied]
      ) { control, call, answer throws(DBusError) in
        control.newUser(try string(call, 0), then: answer)
      },
    ]
  }

  private static func keeping(_ control: SocialControl?) -> [Method] {
    [
      method(
        control, "Collect", in: [Argument("before", "t"), Argument("dry", "b")], out: [Argument("sums", "as")],
        "Purges the blobs that removals flagged, in portions, or with dry only lists them: those of an earlier time than "
          + "before (in milliseconds, as all times), or all if it is 0.",
        errors: [.invalidArgs]
      ) { control, call, answer throws(DBusError) in
        guard let before = call.arguments.first?.asUInt64, let isDry = call.arguments.last?.asBool else {
          throw .invalidArgs("Collect takes a time and a boolean.")
        }
        control.collect(before: before, isDry: isDry, then: answer)
      },
      method(
        control, "Backup", in: [Argument("file", "h")],
        "Writes all blobs as one SQLite database to a regular file that is open for writing, and synchronises it. The database "
          + "can take the place of social.db beside an empty folder blobs. Other requests wait while the database is copied. "
          + "There is one backup at a time.",
        errors: [.invalidArgs, .busy, .limitExceeded]
      ) { control, call, answer throws(DBusError) in
        guard let file = call.arguments.first?.asDescriptor else { throw .invalidArgs("Backup takes a file.") }
        control.backUp(to: file, then: answer)
      },
      method(
        control, "Export", in: [Argument("path", "s")], out: [Argument("report", "s")],
        "Writes all blobs as a directory tree in the format of the original ASN servers into a new directory, to which "
          + "the service has access: below its state directory. Returns a report in one sentence.",
        errors: []
      ) { control, call, answer throws(DBusError) in
        control.export(to: try string(call, 0), then: answer)
      },
      method(
        control, "Import", in: [Argument("path", "s")], out: [Argument("report", "s")],
        "Reads a tree of files, as Export writes it, into the store. Blobs that the store already has stay. Returns a "
          + "report in sentences, with the files that were passed over.",
        errors: [.limitExceeded]
      ) { control, call, answer throws(DBusError) in
        control.import(from: try string(call, 0), then: answer)
      },
    ]
  }

  private static func connecting(_ sessions: SessionControl?) -> [Method] {
    [
      Method(
        "ImportKeys", in: [Argument("name", "s"), Argument("keys", "h")], out: [Argument("user", "s")],
        documentation:
          "Stores the keys of a user, as NewUser returns them, under a name for Connect; keys of that name are replaced. "
          + "Returns the user's public encryption key.",
        errors: [.invalidArgs, .busy, .limitExceeded, .timeout, .failed],
        handler: { [weak sessions] call in
          guard let sessions else { return call.fail(.notReady("The server is stopping.")) }
          guard let name = call.arguments.first?.asString, let file = call.arguments.last?.asDescriptor else {
            return call.fail(.invalidArgs("ImportKeys takes a name and a file."))
          }
          call.read(file, limit: UserKeys.limit) { [weak sessions] result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(let text):
              sessions?.importKeys(name, text) { result in
                switch result {
                case .success(let values): call.reply(values)
                case .failure(let error): call.fail(error)
                }
              }
            }
          }
        }),
      Method(
        "Watch",
        documentation:
          "Sends the caller the signals about the objects of the service: InterfacesAdded, InterfacesRemoved and "
          + "PropertiesChanged, each addressed to its connection. They end with the connection.",
        errors: [.limitExceeded],
        returning: { [weak sessions] call throws(DBusError) in
          try sessions?.watch(call)
          return []
        }),
      Method(
        "Connect", in: [Argument("url", "s"), Argument("service_key", "s"), Argument("user", "s")],
        out: [Argument("session", "o")],
        documentation:
          "Logs in to a social server as a user whose keys are stored under a name, and returns the object of the session. The "
          + "URL is an address as in Listen=. The service key has 64 digits, a colon, and the 48 digits of the nonce. There "
          + "are at most 16 sessions.",
        errors: [.invalidArgs, .notFound, .limitExceeded, .peerLost, .failed],
        handler: { [weak sessions] call in
          let words = call.arguments.compactMap(\.asString)
          guard let sessions else { return call.fail(.notReady("The server is stopping.")) }
          guard words.count == 3 else { return call.fail(.invalidArgs("Connect takes three texts.")) }
          sessions.connect(words[0], words[1], words[2], call)
        }),
    ]
  }

  private static func properties(_ control: SocialControl?) -> [Property] {
    func number(_ value: @escaping @LoopActor (SocialControl) -> UInt64) -> Property.Getter {
      { [weak control] in
        guard let control else { return .uint64(0) }
        return .uint64(value(control))
      }
    }
    func text(_ value: @escaping @LoopActor (SocialControl) -> String) -> Property.Getter {
      { [weak control] in
        guard let control else { return .string("") }
        return .string(value(control))
      }
    }
    return [
      Property(
        "Sessions", "t", documentation: "The number of connections, logged in or not.", emits: .none,
        get: number { UInt64($0.service.sessionCount) }),
      Property(
        "LoggedIn", "as", documentation: "The keys of the users that are logged in, once for each session.",
        emits: .none,
        get: { [weak control] in .strings(control?.service.users.map(\.hex) ?? []) }),
      Property(
        "Users", "t", documentation: "The number of users, forums, bridges and places.",
        get: number { UInt64(clamping: $0.usage.users) }),
      Property(
        "Blobs", "t", documentation: "The number of stored blobs.", get: number { UInt64(clamping: $0.usage.blobs) }),
      Property("Bytes", "t", documentation: "The bytes of all stored blobs.", get: number { $0.usage.bytes }),
      Property(
        "Listeners", "as", documentation: "The addresses at which the server listens.", emits: .none,
        get: { [weak control] in .strings(control?.service.addresses.map(\.text) ?? []) }),
      Property(
        "ServiceKey", "s",
        documentation: "The public encryption key of the service, 64 digits, which a client needs.", emits: .const,
        get: text { $0.keys.user.hex }),
      Property(
        "ServiceNonce", "s", documentation: "The initial nonce of the service, 48 digits, which a client needs.",
        emits: .const, get: text { $0.keys.nonceText }),
      Property(
        "Trouble", "s", documentation: "Why blobs cannot be stored, and what to do; empty if they can.",
        get: text { $0.trouble }),
      Property(
        "Counters", "a{st}",
        documentation: "Counters since the service started, including everything that was refused or dropped.",
        emits: .none, get: { [weak control] in .tallies(control?.tallies ?? []) }),
    ]
  }
}
