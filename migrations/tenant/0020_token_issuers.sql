CREATE TABLE `issuers` (
	`name` text PRIMARY KEY NOT NULL,
	`issuer` text NOT NULL,
	`spec` text NOT NULL,
	`agents` text NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `issuers_issuer_unique` ON `issuers` (`issuer`);